"""How much of the disk a sandbox uses, and how much of its workspace has changed: nobody but the sidecar bounds that."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress

from worker_agent.core.looks import Sum, after, is_due

MIB = 1 << 20
WALK_ENTRIES_MAX = 200_000
"""Files looked at in one sum; a workspace with more counts as over its limit."""


class Changes:
    """How much of the workspace has changed since some moment."""

    def __init__(self, since_ns: int) -> None:
        """Know nothing yet.

        Args:
            since_ns: wall clock, nanoseconds since 1970.
        """
        self.since_ns = since_ns
        self.bytes: int | None = None
        """Size of the files that have changed since then, at the last look; None: nobody has looked yet."""


def disk_mib(folders: list[str], limit_mib: float, changes: Changes | None = None) -> float:
    """Return the disk space of all files below these folders, MiB; stops counting above `limit_mib`.

    What has changed in the first of them goes to `changes` on the way.
    """
    used = seen = changed = 0
    since_ns = sys.maxsize if changes is None else changes.since_ns
    waiting = [(folder, number == 0) for number, folder in enumerate(folders)]
    while waiting:
        path, is_kept = waiting.pop()
        try:
            entries = os.scandir(path)
        except OSError:
            continue  # removed meanwhile, or not ours to read
        with entries:
            for entry in entries:
                seen += 1
                # Each for itself: a file that is removed right now must not hide the rest of its folder.
                with suppress(OSError):
                    about = entry.stat(follow_symlinks=False)
                    used += about.st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((entry.path, is_kept))
                    elif (
                        is_kept
                        and about.st_ctime_ns >= since_ns
                        and entry.is_file(follow_symlinks=False)
                    ):
                        changed += about.st_size
                if used > limit_mib * MIB or seen > WALK_ENTRIES_MAX:
                    return max(used / MIB, limit_mib + 1)
    if changes is not None:
        changes.bytes = changed
    return used / MIB


class Disk:
    """Of one sandbox: its files are added up when `core.looks` says so."""

    def __init__(self, folders: list[str], limit_mib: float) -> None:
        """Look at nothing yet."""
        self._folders, self._limit_mib = folders, limit_mib
        self._last: Sum | None = None
        self._ended_at = 0.0
        """When that was, monotonic."""
        self._changes = Changes(0)

    @property
    def changed_bytes(self) -> int | None:
        """Size of the workspace's files that have changed since the moment that was asked for; None: nobody has looked yet."""
        return self._changes.bytes

    def count_changes(self, since_ns: int) -> None:
        """Count what changes from a moment on (wall clock, nanoseconds)."""
        self._changes = Changes(since_ns)

    def passed_limit(self) -> bool:
        """Return whether the sandbox was seen to have passed its limit; if it is time to look."""
        changes, free_bytes, began_at = self._changes, self._free_bytes(), time.monotonic()
        if self._last is not None:
            since_s, is_asked = began_at - self._ended_at, changes.bytes is None
            if not is_due(self._last, since_s, free_bytes, is_asked=is_asked):
                return False
        spent_s = time.thread_time()
        used_mib = disk_mib(self._folders, self._limit_mib, changes)
        room_bytes = int((self._limit_mib - used_mib) * MIB)
        seen = Sum(time.thread_time() - spent_s, room_bytes, free_bytes)
        self._last = after(self._last, seen)
        self._ended_at = time.monotonic()
        return used_mib > self._limit_mib

    def _free_bytes(self) -> int:
        """Return what is free on the file systems of all folders, one that holds two of them counted twice."""
        free_bytes = 0
        for folder in self._folders:
            with suppress(OSError):
                about = os.statvfs(folder)
                free_bytes += about.f_bavail * about.f_frsize
        return free_bytes
