"""Which machine and which commit a figure belongs to."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

GIT_TIMEOUT_S = 10.0
REPORTS = ("benchmarks/results", "docs/results", "README.md")
"""What a benchmark keeps, and where its figures are shown: no change of what it measures."""


def describe_machine(isolation: str = "") -> dict[str, Any]:
    """Return what decides how fast this machine is.

    Args:
        isolation: class that the sandboxes really had; empty: the benchmark has none.
    """
    found: dict[str, Any] = {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": cpu_model(_read("/proc/cpuinfo")),
        "memory_gib": round(memory_kib(_read("/proc/meminfo")) / 1024 / 1024, 1),
        "kernel": platform.release(),
        "arch": platform.machine(),
        "python": platform.python_version(),
        "root": os.geteuid() == 0,
    }
    if isolation:
        found["isolation"] = isolation
    return found


def cpu_model(cpuinfo: str) -> str:
    """Return the processor's name, or an empty string where the kernel does not tell."""
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "CPU part"):
            return value.strip()
    return ""


def memory_kib(meminfo: str) -> int:
    """Return the machine's memory, KiB; 0 where the kernel does not tell."""
    for line in meminfo.splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1])
    return 0


def find_commit(root: Path) -> str:
    """Return the short id of the commit, with `-dirty` where files differ from it, or `unknown` without git."""
    found = _git(root, "rev-parse", "--short=10", "HEAD")
    if not found:
        return "unknown"
    changed = _git(
        root, "status", "--porcelain", "--", ".", *(f":(exclude){path}" for path in REPORTS)
    )
    return found + ("-dirty" if changed else "")


def _git(root: Path, *arguments: str) -> str:
    try:
        run = subprocess.run(
            ["git", *arguments],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=GIT_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return run.stdout.strip()


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
