"""A range of uids that no other node on this machine uses, held by the kernel for as long as this process lives."""

from __future__ import annotations

import contextlib
import os
import signal
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
        """Take a free range and end what an earlier holder left running in it.

        Raises:
            Unavailable: all ranges are taken.
        """
        self._lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        for index in range(_RANGES):
            with contextlib.suppress(OSError):
                # An abstract name: the kernel frees it when the process dies, however it dies.
                self._lock.bind(f"\0agent-sandbox-uids-{index}")
                self.first = BASE + index * COUNT
                break
        else:
            self._lock.close()
            raise Unavailable(f"all {_RANGES} uid ranges are taken by other nodes")
        self._next = 0
        self._kill_leftovers()

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

    def _kill_leftovers(self) -> None:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    if self.first <= entry.stat().st_uid < self.first + COUNT:
                        os.kill(int(entry.name), signal.SIGKILL)
