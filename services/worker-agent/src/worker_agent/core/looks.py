"""When all files of a sandbox are added up anew: seldom enough to cost little, soon enough to stop who fills the disk. Pure.

A sum reads every name in the workspace, so it costs as much as there are files. What is free on the file system costs nothing to
ask: a sandbox that has written much has made it less. Others may have, too; then a sum comes early for nothing, and the next one
that comes early waits twice as long: a neighbour that writes and deletes in a circle must not cost everybody a processor.
"""

from __future__ import annotations

from typing import Final, NamedTuple

INTERVAL_S: Final = 0.2
"""Between two looks at what costs nothing, and between two sums of few files."""
SHARE: Final = 0.02
"""Of one processor, for sums where nothing hurries."""
SHARE_HURRIED: Final = 0.5
"""Where half of the sandbox's room may be used up since the last one, or somebody asks what has changed."""
VAIN_SHARE: Final = 0.25
"""Of its room: a sandbox that has written less, where half of it may have been used up, is not who wrote."""
VAIN_MAX: Final = 5
"""Then the pause is what it is where nothing hurries, or longer."""
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
    vain: int = 0
    """Sums in a row for which free space had called, and which found that others had written."""


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
    rest_s = last.took_s / SHARE_HURRIED
    if is_asked:
        return since_s >= rest_s
    return _calls(last, free_bytes) and since_s >= rest_s * 2**last.vain


def after(last: Sum | None, seen: Sum) -> Sum:
    """Return what is to be remembered of a new sum.

    Args:
        last: the one before; None: there was none.
        seen: what it saw.
    """
    if last is None or not _calls(last, seen.free_bytes):
        return seen
    is_vain = seen.room_bytes > last.room_bytes * (1 - VAIN_SHARE)
    return seen._replace(vain=min(last.vain + 1, VAIN_MAX) if is_vain else 0)


def _calls(last: Sum, free_bytes: int) -> bool:
    """Return whether half of the sandbox's room may be used up since the last sum."""
    return last.free_bytes - free_bytes >= last.room_bytes / 2
