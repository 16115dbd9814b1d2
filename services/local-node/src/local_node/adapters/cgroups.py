"""Control groups of sandboxes, version 1, 2 or both at once: what is really writable is found by trying.

One parent group per node below the node's own group of each hierarchy, one child per pod. Mounts and other groups
are left as they are.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import time
import zlib
from pathlib import Path

from shared import logs
from shared.pools import PodLimits

log = logs.get(__name__)

_WANTED = ("memory", "pids", "cpu")
_NODE_SHARES_PER_CORE = 4 * 1024
"""Weight of all sandboxes of a node together, where each process outside has 1024. With the weight of one process a
core, the first instruction of a new task waited behind every service that had something to do (measured: 75 ms)."""
_PERIOD_US = 100_000
_MIB = 1 << 20
_EMPTY_WITHIN_S = 2.0


@dataclasses.dataclass(frozen=True)
class Hierarchy:
    """One mounted hierarchy in which this node has a group."""

    parent: Path
    version: int
    controllers: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class PodGroup:
    """A pod's groups, one in each hierarchy."""

    paths: tuple[Path, ...]
    memory: Path | None
    """The one that accounts memory: where the sidecar reads usage and kills."""

    def open_entries(self) -> list[int]:
        """Open the file by which each group is entered, for writing; whoever holds them may enter.

        Version 1 has two: `tasks` takes one thread at once, `cgroup.procs` a whole process after a grace period of the
        kernel (measured: 8 to 12 ms). A process that was just forked has one thread.
        """
        return [os.open(_entry(path), os.O_WRONLY | os.O_CLOEXEC) for path in self.paths]


class Groups:
    """The control groups of one node."""

    def __init__(self, node: str, folder: Path) -> None:
        """Find out which controllers this process may use, and end what an earlier one left in them.

        Args:
            node: the node's name.
            folder: the node's directory, whose lock is held: no other process uses groups with both in their name.
        """
        self._name = f"agent-sandbox-{node}-{zlib.crc32(bytes(folder.absolute())):08x}"
        self.hierarchies: list[Hierarchy] = []
        self.missing: dict[str, str] = {}
        """Controller -> why it cannot be used."""
        for controller in _WANTED:
            try:
                self._add(controller)
            except OSError as exc:
                self.missing[controller] = f"{exc.strerror or exc}: {exc.filename or exc}"

    @property
    def controllers(self) -> tuple[str, ...]:
        """Controllers that every pod has."""
        return tuple(name for each in self.hierarchies for name in each.controllers)

    def create(self, pod: str, limits: PodLimits) -> PodGroup | None:
        """Make a pod's groups with their limits; None where the node has no controller.

        Raises:
            OSError: refused by the kernel.
        """
        memory = None
        paths = []
        for each in self.hierarchies:
            path = each.parent / pod
            with contextlib.suppress(FileExistsError):
                path.mkdir()
            for name, value in _values(each, limits):
                _write(path / name, value)
            paths.append(path)
            if "memory" in each.controllers:
                memory = path
        return PodGroup(tuple(paths), memory) if paths else None

    def remove(self, pod: str) -> bool:
        """Remove a pod's groups; False where processes are still in them."""
        kept = [each for each in self.hierarchies if not _remove(each.parent / pod)]
        return not kept

    def kill(self, pod: str) -> None:
        """Kill whatever is in a pod's groups."""
        for each in self.hierarchies:
            _kill(each.parent / pod)

    def close(self) -> None:
        """End everything in this node's groups and remove them."""
        for each in self.hierarchies:
            _clear(each.parent)

    def _add(self, controller: str) -> None:
        for each in self.hierarchies:
            if controller in each.controllers:
                return
        own, version = _own_group(controller)
        parent = own / self._name
        if parent in [each.parent for each in self.hierarchies]:
            raise FileNotFoundError(errno.ENOENT, "controller is not delegated", str(own))
        if version == 2:
            _delegate(own)
        _clear(parent)
        parent.mkdir()
        try:
            if version == 2:
                present = (parent / "cgroup.controllers").read_text().split()
                if controller not in present:
                    raise FileNotFoundError(errno.ENOENT, "controller is not delegated", str(own))
                names = tuple(name for name in _WANTED if name in present)
                _write(parent / "cgroup.subtree_control", " ".join(f"+{name}" for name in names))
            else:
                names = (controller,)
                _prepare_v1(parent, controller)
            self.hierarchies.append(Hierarchy(parent, version, names))
        except OSError:
            _clear(parent)
            raise


def _values(hierarchy: Hierarchy, limits: PodLimits) -> list[tuple[str, str]]:
    """Return the files of a pod's group and what to write into them."""
    memory, quota = str(limits.memory_mib * _MIB), int(limits.cpu * _PERIOD_US)
    by_controller = {
        (1, "memory"): [("memory.limit_in_bytes", memory)],
        (1, "pids"): [("pids.max", str(limits.pids))],
        (1, "cpu"): [("cpu.shares", str(max(2, int(1024 * limits.cpu)))), ("cpu.cfs_quota_us", str(quota))],
        (2, "memory"): [("memory.max", memory)],
        (2, "pids"): [("pids.max", str(limits.pids))],
        (2, "cpu"): [("cpu.weight", str(min(10000, max(1, int(100 * limits.cpu))))), ("cpu.max", f"{quota} {_PERIOD_US}")],
    }  # fmt: skip
    return [
        value for name in hierarchy.controllers for value in by_controller[hierarchy.version, name]
    ]


def _prepare_v1(parent: Path, controller: str) -> None:
    if controller == "memory":
        with contextlib.suppress(
            OSError
        ):  # the default since long, and read-only once it has children
            _write(parent / "memory.use_hierarchy", "1")
        _write(parent / "memory.limit_in_bytes", "-1")  # a trial
    elif controller == "cpu":
        _write(parent / "cpu.shares", str(_NODE_SHARES_PER_CORE * (os.cpu_count() or 1)))
    else:
        _write(parent / "pids.max", "max")


def _own_group(controller: str) -> tuple[Path, int]:
    """Return this process's group in the hierarchy that has `controller`, and its version.

    Raises:
        OSError: no such hierarchy is mounted.
    """
    groups: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        groups.update(dict.fromkeys(names.split(","), path))
    unified = None
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        mounted_root, mount_point = before.split()[3:5]
        if kind == "cgroup" and controller in options.split(","):
            return _below(mount_point, mounted_root, groups.get(controller, "/")), 1
        if kind == "cgroup2":
            unified = _below(mount_point, mounted_root, groups.get("", "/"))
    if unified is None:
        raise FileNotFoundError(errno.ENOENT, "no hierarchy with this controller", controller)
    return unified, 2


def _below(mount_point: str, mounted_root: str, group: str) -> Path:
    """Translate a group's path into one below the mount, which may show a part of the hierarchy only."""
    if mounted_root != "/" and group.startswith(mounted_root):
        group = group[len(mounted_root) :]
    path = Path(mount_point) / group.lstrip("/")
    return path if path.is_dir() else Path(mount_point)


def _delegate(own: Path) -> None:
    """Let children of our own version 2 group have controllers.

    A group that has both processes and children may not: where only this process is in the way, it moves down.
    """
    have = (own / "cgroup.controllers").read_text().split()
    wanted = [name for name in _WANTED if name in have]
    if not wanted:
        raise FileNotFoundError(errno.ENOENT, "no controllers are delegated", str(own))
    missing = set(wanted) - set((own / "cgroup.subtree_control").read_text().split())
    if not missing:
        return
    text = " ".join(f"+{name}" for name in wanted)
    try:
        _write(own / "cgroup.subtree_control", text)
    except OSError as exc:
        if exc.errno != errno.EBUSY:
            raise
        (own / "agent-sandbox-node").mkdir(exist_ok=True)
        _write(own / "agent-sandbox-node" / "cgroup.procs", "0")
        _write(own / "cgroup.subtree_control", text)


def _write(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text)


def _pids(group: Path) -> list[int]:
    try:
        return [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
    except (FileNotFoundError, OSError):
        return []


def _kill(group: Path) -> None:
    with contextlib.suppress(OSError):
        if (group / "cgroup.kill").exists():
            _write(group / "cgroup.kill", "1")
            return
    with contextlib.suppress(OSError):
        _write(group / "pids.max", "0")  # nobody in it can fork any more
    for pid in _pids(group):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)


def _remove(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _clear(parent: Path) -> None:
    """Kill and remove everything below `parent`, and itself; only at the start and the end of a node."""
    if not parent.is_dir():
        return
    until = time.monotonic() + _EMPTY_WITHIN_S
    groups = [*(path for path in parent.iterdir() if path.is_dir()), parent]
    while groups and time.monotonic() < until:
        for group in groups:
            _kill(group)
        groups = [group for group in groups if not _remove(group)]
        if groups:
            time.sleep(0.01)
    if groups:
        log.warning("cgroups.kept", groups=[str(group) for group in groups])


def _entry(group: Path) -> Path:
    tasks = group / "tasks"
    return tasks if tasks.exists() else group / "cgroup.procs"
