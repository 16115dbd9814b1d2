"""Which machine and which commit a run belongs to, and how busy the machine is."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

GIT_S = 10.0
REPORTS = (
    "benchmarks/results", "docs/results", "README.md", "labs/*/run.*", "labs/*/README.md",
)  # fmt: skip
"""What a run that is kept changes itself: no change of what is run."""
PRESSURE = Path("/proc/pressure/cpu")


def describe_machine(isolation: str = "") -> dict[str, Any]:
    """Return what decides how fast this machine is; `isolation` is the class that the sandboxes really have, if there are any."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _field("/proc/cpuinfo", "model name"),
        "memory_gib": round(_memory_kib() / 1024 / 1024, 1),
        "kernel": platform.release(),
        "arch": platform.machine(),
        "python": platform.python_version(),
        "root": os.geteuid() == 0,
        **({"isolation": isolation} if isolation else {}),
        "version": importlib.metadata.version("agent-sandbox-chaos"),
    }


def find_commit() -> str:
    """Return the short id of the source's commit, with `-dirty` where it was changed, or `unknown` without git."""
    found = _git("rev-parse", "--short=10", "HEAD")
    if not found:
        return "unknown"
    changed = _git(
        "status", "--porcelain", "--", ":/", *(f":(exclude,top){path}" for path in REPORTS)
    )
    return found + ("-dirty" if changed else "")


def read_waited_s() -> float | None:
    """Return the seconds since the machine's start in which something waited for a processor (PSI cpu, some).

    None: the kernel does not tell.
    """
    try:
        lines = PRESSURE.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("some"):
            return int(line.rpartition("total=")[2]) / 1e6
    return None


def _git(*words: str) -> str:
    try:
        done = subprocess.run(
            ["git", *words],  # noqa: S607 - whichever git the developer has
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=GIT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _field(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def _memory_kib() -> int:
    words = _field("/proc/meminfo", "MemTotal").split()
    return int(words[0]) if words else 0
