"""What `doctor` sees of this machine. Each fact is taken on its own: one that can't be had hides no other."""

from __future__ import annotations

import importlib.util
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from agent_sandbox.checkup.limits import memory_available_bytes, processes_max
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.programs import SERVICE_MODULES, inherited
from agent_sandbox.embedded.table import read_table
from shared.cluster.binary import find_binary
from shared.cluster.errors import ClusterFailed
from shared.cluster.layout import SERVERS, ClusterFile
from shared.cluster.ports import (
    ServerPorts,
    find_free_base,
    gateway_ports_from,
    ports_from,
    why_taken,
)
from shared.errors import ServiceError
from shared.machine import MachineView
from shared.messages import Answer

PROBE_S = 40.0
"""Longest trial of the isolation classes."""
VERSION_S = 10.0

KERNEL_SWITCHES = (
    "user.max_user_namespaces",
    "kernel.unprivileged_userns_clone",
    "kernel.apparmor_restrict_unprivileged_userns",
)
"""Settings of the kernel that can take namespaces from an ordinary user."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen; an empty `…_error` means that it could be seen."""

    system: str = ""
    kernel: str = ""
    is_root: bool = False
    in_container: bool = False
    python: str = ""
    services_missing: tuple[str, ...] = ()
    """Modules of the embedded cluster that are not installed."""
    server: str = ""
    """Version of nats-server, and where it is."""
    server_error: str = ""
    machine: MachineView | None = None
    machine_error: str = ""
    switches: dict[str, int] = {}
    """Those of KERNEL_SWITCHES that this kernel has."""
    has_landlock: bool = False
    state: str = ""
    state_error: str = ""
    phase: str = "none"
    """Of the cluster in the folder: `runs`, `down`; `none` where there is no cluster yet."""
    ports: tuple[int, ...] = ()
    """Ports that it has or wants; none: free ones are chosen at the first start."""
    ports_taken: dict[int, str] = {}
    """Port -> why nothing can listen there."""
    ports_error: str = ""
    disk_free_bytes: int = 0
    disk_path: str = ""
    memory_free_bytes: int = 0
    cores: int = 0
    files_soft: int = 0
    files_hard: int = 0
    processes_max: int | None = None
    """Processes and threads of this user or group; None: no bound."""


def look(folder: Folder, base_port: int | None) -> Facts:
    """Return the facts for a cluster in this folder.

    Args:
        folder: state folder; it need not exist and is not made.
        base_port: first of the ports that `up` is to be told; None: those that the folder has, else free ones.
    """
    version, server_error = _server()
    state_error = _state_error(folder)
    missing = tuple(name for name in SERVICE_MODULES if importlib.util.find_spec(name) is None)
    machine, machine_error = _machine(folder, missing, state_error)
    ports, taken, ports_error = _ports(folder, base_port)
    place = _existing(folder.path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Facts(
        system=platform.system(),
        kernel=platform.release(),
        is_root=os.geteuid() == 0,
        in_container=_in_container(),
        python=f"{platform.python_version()} ({sys.executable})",
        services_missing=missing,
        server=version,
        server_error=server_error,
        machine=machine,
        machine_error=machine_error,
        switches=_switches(),
        has_landlock="landlock" in _text("/sys/kernel/security/lsm"),
        state=str(folder.path),
        state_error=state_error,
        phase=_phase(folder),
        ports=ports,
        ports_taken=taken,
        ports_error=ports_error,
        disk_free_bytes=shutil.disk_usage(place).free,
        disk_path=str(place),
        memory_free_bytes=memory_available_bytes(),
        cores=len(os.sched_getaffinity(0)),
        files_soft=soft,
        files_hard=hard,
        processes_max=processes_max(),
    )


def _server() -> tuple[str, str]:
    """Return (version and place of nats-server, why there is none)."""
    try:
        binary = find_binary()
    except ClusterFailed as exc:
        return "", str(exc)
    try:
        done = subprocess.run(
            [binary, "--version"], capture_output=True, text=True, timeout=VERSION_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as exc:
        return "", f"{binary} does not run: {exc}"
    return f"{done.stdout.strip().removeprefix('nats-server: ')} ({binary})", ""


def _state_error(folder: Folder) -> str:
    """Return why no cluster can live in the folder; a folder that is not there yet is made by `up`."""
    try:
        folder.check()
    except ServiceError as exc:
        return str(exc)
    place = _existing(folder.path)
    if not place.is_dir():
        return f"{place} is not a folder: choose another with --state"
    if not os.access(place, os.W_OK | os.X_OK):
        return f"no permission to write in {place}: choose another folder with --state"
    return ""


def _phase(folder: Folder) -> str:
    if not _is_there(folder.cluster_file):
        return "none"
    table = read_table(folder)
    return "runs" if table is not None and table.is_live() else "down"


def _machine(
    folder: Folder, missing: tuple[str, ...], state_error: str
) -> tuple[MachineView | None, str]:
    """Have a node try the isolation classes where its pods would lie; nothing of it stays."""
    if missing:
        return None, "not tried: the services are not installed"
    place = None  # any folder tells most of it
    if not state_error:
        place = folder.nodes if _is_there(folder.nodes) else _existing(folder.path)
    try:
        with tempfile.TemporaryDirectory(prefix=".doctor-", dir=place) as name:
            Path(name).chmod(0o711)
            settings = {"LOCAL_NODE_NAME": "doctor", "LOCAL_NODE_DIR": name}
            done = subprocess.run(
                [sys.executable, "-m", "local_node", "--probe"],
                env=inherited(os.environ) | settings,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PROBE_S,
                check=False,
            )
    except (OSError, subprocess.SubprocessError) as exc:
        return None, str(exc)
    try:
        return msgspec.json.decode(done.stdout, type=MachineView), ""
    except msgspec.ValidationError:
        error = msgspec.json.decode(done.stdout, type=Answer).error
        return None, error.message if error else "no answer"
    except msgspec.DecodeError:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return None, said[-1] if said else f"the trial ended with code {done.returncode}"


def _ports(folder: Folder, base_port: int | None) -> tuple[tuple[int, ...], dict[int, str], str]:
    """Return (ports of a cluster in this folder, those that are taken with the reason, why none can be had)."""
    named = base_port or _base_port(folder)
    kept = _text(str(folder.servers / "cluster.json"))
    if named is not None:
        ports = row_of(ports_from(named, SERVERS), gateway_ports_from(named, SERVERS))
    elif kept:
        file = msgspec.json.decode(kept, type=ClusterFile)
        ports = row_of(file.ports, file.gateways)
    else:
        try:
            find_free_base(SERVERS)
        except ClusterFailed as exc:
            return (), {}, str(exc)
        return (), {}, ""
    if _phase(folder) == "runs":
        return ports, {}, ""
    taken = {port: why for port in ports if (why := why_taken(port)) is not None}
    return ports, taken, ""


def row_of(servers: Sequence[ServerPorts], gateways: Sequence[int]) -> tuple[int, ...]:
    """Return every port of a cluster, in order."""
    of_servers = [
        port
        for each in servers
        for port in (each.client, each.route, each.monitor, each.edge)
        if port
    ]
    return tuple(sorted([*of_servers, *gateways]))


def _base_port(folder: Folder) -> int | None:
    try:
        return folder.read().base_port
    except ServiceError:
        return None


def _existing(path: Path) -> Path:
    """Return the path, or its nearest parent that there is."""
    return next(place for place in (path, *path.parents) if _is_there(place))


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # in a folder that is shut to us
        return False


def _switches() -> dict[str, int]:
    found = {}
    for name in KERNEL_SWITCHES:
        text = _text("/proc/sys/" + name.replace(".", "/")).strip()
        if text.isdigit():
            found[name] = int(text)
    return found


def _in_container() -> bool:
    return Path("/.dockerenv").exists() or Path("/run/.containerenv").exists()


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
