"""The host's side of an attack: finding a process of a sandbox."""

from __future__ import annotations

import os
from pathlib import Path


def find_process(mark: str) -> int | None:
    """Return the process that has a word in its command line; None: there is none, or we may not look."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                    return int(entry.name)
            except OSError:
                continue
    return None
