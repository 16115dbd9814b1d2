"""Rules for every test run: a skip must be listed in tests/expected_skips and fit this machine, else it fails."""

from __future__ import annotations

import ctypes
import fnmatch
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Callable, Generator
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import hypothesis
import pytest

import shared  # before pytest makes a namespace package of the folder of that name

# Fixtures for all members: real servers and what connects to them.
FIXTURES = Path(shared.__file__).parent / "testing" / "plugin.py"
pytest_plugins = ["shared.testing.plugin"] if FIXTURES.exists() else []

LANDLOCK_CREATE_RULESET = 444  # the same number on every architecture
LANDLOCK_VERSION_FLAG = 1

# A machine that is shared with others must not fail a property for being slow; CI must not fail at random.
hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")


# ------------------------------------------------------- what a machine may lack, found without our own code
def _lacks_landlock() -> bool:
    """True: the kernel has no Landlock, or it is switched off."""
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    return bool(syscall(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_VERSION_FLAG) < 1)


def _lacks_namespaces() -> bool:
    """True: this user may not make mount, PID and network namespaces, not even in a user namespace."""
    new = 0x00020000 | 0x20000000 | 0x40000000  # CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET
    flags = new if os.geteuid() == 0 else new | 0x10000000  # CLONE_NEWUSER
    attempt = f"import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare({flags}) != 0)"
    return subprocess.run([sys.executable, "-c", attempt], check=False, timeout=20).returncode != 0


def _lacks_docker() -> bool:
    """True: no Docker engine answers at its socket."""
    place = urllib.parse.urlparse(os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock")
    family = socket.AF_UNIX if place.scheme == "unix" else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as engine:
        engine.settimeout(20)
        try:
            engine.connect(place.path if place.scheme == "unix" else (place.hostname, place.port))
            engine.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b" 200 " not in engine.recv(1024)
        except OSError:
            return True


def _lacks_cgroups() -> bool:
    """True: no memory controller in which this user may make a group."""
    unified = Path("/sys/fs/cgroup")
    if (unified / "memory").is_dir():  # version 1, or hybrid
        return not os.access(unified / "memory", os.W_OK)
    controllers = unified / "cgroup.subtree_control"
    return not (os.access(unified, os.W_OK) and "memory" in controllers.read_text().split())


def _lacks_tracking() -> bool:
    """True: the temporary folder is on a file system that may not tell of writes through mappings."""
    place, found = os.path.realpath(tempfile.gettempdir()), ("", "")
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, kind, *_ = line.split()
        if f"{place}/".startswith(f"{mount.rstrip('/')}/") and len(mount) >= len(found[0]):
            found = (mount, kind)
    return found[1] not in ("ext2", "ext3", "ext4", "xfs", "btrfs")


def _lacks_loop_disks() -> bool:
    """True: this user may not make a file system in a file, or not mount it."""
    with tempfile.TemporaryDirectory() as name:
        image, place = Path(name, "image"), Path(name, "place")
        place.mkdir()
        with image.open("wb") as file:
            file.truncate(16 << 20)
        script = 'mkfs.ext4 -q -F "$1" && mount -o loop "$1" "$2" && umount "$2"'
        words = ["sh", "-c", script, "sh", str(image), str(place)]
        return subprocess.run(words, check=False, timeout=30, capture_output=True).returncode != 0


CONDITIONS: dict[str, Callable[[], bool]] = {
    "no-audit-log": lambda: not os.environ.get("AGENT_SANDBOX_AUDIT_LOG"),
    "no-cgroups": _lacks_cgroups,
    "no-curl": lambda: shutil.which("curl") is None,
    "no-docker": _lacks_docker,
    "no-go": lambda: shutil.which("go") is None,
    "no-fish": lambda: shutil.which("fish") is None,
    "no-git": lambda: shutil.which("git") is None,
    "no-kubectl": lambda: shutil.which("kubectl") is None,
    "no-kubernetes": lambda: not os.environ.get("KUBECONFIG"),
    "no-landlock": lambda: sys.platform != "linux" or _lacks_landlock(),
    "no-disk-class": lambda: not os.environ.get("AGENT_SANDBOX_DISK_CLASS"),
    "no-node-faults": lambda: not os.environ.get("AGENT_SANDBOX_FAULTS"),
    "no-openssl": lambda: shutil.which("openssl") is None,
    "no-namespaces": lambda: sys.platform != "linux" or _lacks_namespaces(),
    "no-loop-disks": _lacks_loop_disks,
    "no-zsh": lambda: shutil.which("zsh") is None,
    "not-linux": lambda: sys.platform != "linux",
    "not-root": lambda: os.geteuid() != 0,
    "root": lambda: os.geteuid() == 0,
    "untracked-tmp": lambda: sys.platform != "linux" or _lacks_tracking(),
}
"""What a line of tests/expected_skips may name; true where the machine gives the reason to skip."""


Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


class ExpectedSkip(NamedTuple):
    """One line of tests/expected_skips."""

    pattern: str
    condition: str
    reason: str


@cache
def _holds(condition: str) -> bool:
    """Return whether this machine gives the reason; asked once a run."""
    return CONDITIONS[condition]()


def _read_expected(text: str) -> list[ExpectedSkip]:
    """Return the lines of tests/expected_skips.

    Raises:
        pytest.UsageError: a line has no condition, an unknown one, or no reason.
    """
    expected = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split(maxsplit=2)
        if len(fields) < len(ExpectedSkip._fields) or fields[1] not in CONDITIONS:
            raise pytest.UsageError(f"expected_skips: pattern, condition, reason wanted: {line!r}")
        expected.append(ExpectedSkip(*fields))
    return expected


def _objection(test_id: str, expected: list[ExpectedSkip]) -> str | None:
    """Return why this test must not skip here, or None when it may."""
    listed = [entry for entry in expected if fnmatch.fnmatchcase(test_id, entry.pattern)]
    if not listed:
        return "skipped, but tests/expected_skips does not list it"
    if not any(_holds(entry.condition) for entry in listed):
        conditions = ", ".join(entry.condition for entry in listed)
        return f"skipped, but this machine could run it: it may skip only when: {conditions}"
    return None


class SkipGuard:
    """Turns each skip that is not expected on this machine into a failure."""

    def __init__(self, expected: list[ExpectedSkip]) -> None:
        """Keep the list; pytest calls the hooks."""
        self._expected = expected

    def _judge(self, report: Report) -> Report:
        if report.outcome != "skipped" or hasattr(report, "wasxfail"):
            return report
        objection = _objection(report.nodeid, self._expected)
        if objection is not None:
            said = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            report.outcome = "failed"
            report.longrepr = f"{report.nodeid}: {objection}\n({said})"
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Judge the skip of a test."""
        return self._judge((yield))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_make_collect_report(
        self,
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Judge the skip of a whole module."""
        return self._judge((yield))


def pytest_configure(config: pytest.Config) -> None:
    """Read the list and stand guard; take interrupts, which a shell switches off for what runs in its background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    path = config.rootpath / "tests" / "expected_skips"
    config.pluginmanager.register(SkipGuard(_read_expected(path.read_text())), "skip-guard")
