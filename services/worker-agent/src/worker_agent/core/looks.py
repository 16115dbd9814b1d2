"""When all files of a sandbox are added up anew: seldom enough to cost little, soon enough to stop who fills the disk. Pure.

A sum reads every name in the workspace, so it costs as much as there are files. What is free on the file system costs nothing to
ask: a sandbox that has written much has made it less. Others may have, too; then a sum comes early for nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

INTERVAL_S: Final = 0.2
"""Between two looks at what costs nothing, and between two sums of few files."""
SHARE: Final = 0.02
"""Of one processor, for sums where nothing hurries."""
SHARE_HURRIED: Final = 0.5
"""Where half of the sandbox's room may be used up since the last one, or somebody asks what has changed."""
REST_S_MAX: Final = 10.0
"""Longest pause between two sums: what comes back by others' deletions hides what the sandbox has written."""


class Sum(NamedTuple):
    """What was seen the last time."""

    took_s: float
    """Time of a processor that it took."""
    room_bytes: int
    """What the sandbox might still write then."""
    free_bytes: int
    """What was free on its file systems before."""


def is_due(last: Sum, since_s: float, free_bytes: int, *, is_asked: bool) -> bool:
    """Return whether to add up anew.

    Args:
        last: what was seen the last time.
        since_s: since its end.
        free_bytes: what is free on the sandbox's file systems now.
        is_asked: somebody wants to know what has changed, and does not yet.
    """
    if since_s >= min(last.took_s / SHARE, REST_S_MAX):
        return True
    hurries = is_asked or last.free_bytes - free_bytes >= last.room_bytes / 2
    return hurries and since_s >= last.took_s / SHARE_HURRIED
