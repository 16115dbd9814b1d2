"""A range of uids that no other node on this machine uses, held by the kernel for as long as this process lives."""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Container
from pathlib import Path

from shared.errors import Unavailable

BASE = 1_900_000_000
"""Above every range that system tools hand out (the last ends at 1879048191), below 2**31."""
COUNT = 10_000
"""Uids in a range: one pod each, used again only after all the others."""
_RANGES = 256


class UidRange:
    """Uids of one node's sandboxes."""

    def __init__(self) -> None:
        """Take a free range: nobody holds it, and no process has a uid of it.

        Nodes in containers of their own do not see each other's locks, and perhaps not their processes, while the
        kernel counts a uid's processes across them: each begins its search somewhere else.

        Raises:
            Unavailable: all ranges are taken.
        """
        self._lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        used = _ranges_in_use()
        start = secrets.randbelow(_RANGES)
        for index in ((start + offset) % _RANGES for offset in range(_RANGES)):
            if index in used:
                continue
            with contextlib.suppress(OSError):
                # An abstract name: the kernel frees it when the process dies, however it dies.
                self._lock.bind(f"\0agent-sandbox-uids-{index}")
                self.first = BASE + index * COUNT
                break
        else:
            self._lock.close()
            raise Unavailable(f"all {_RANGES} uid ranges are taken by other nodes")
        self._next = 0

    def take(self, in_use: Container[int]) -> int:
        """Return the uid that was used least recently and is not in use."""
        for _ in range(COUNT):
            uid = self.first + self._next
            self._next = (self._next + 1) % COUNT
            if uid not in in_use:
                return uid
        raise Unavailable("all uids of this node are in use")

    def close(self) -> None:
        """Give the range back."""
        self._lock.close()


def _ranges_in_use() -> set[int]:
    """Return the ranges of which some process has a uid."""
    used: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                index, _ = divmod(entry.stat().st_uid - BASE, COUNT)
                used.add(index)
    return used
