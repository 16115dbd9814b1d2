"""What this container can see of the kernel that it runs on."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from confinement import machine
from worker_agent.core.fitness import Seen


def look() -> Seen:
    """Look, once."""
    return Seen(
        gvisor=machine.is_gvisor(), mounts=_text("/proc/mounts"), boot=_text("/proc/cmdline")
    )


def _text(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text()
    return ""
