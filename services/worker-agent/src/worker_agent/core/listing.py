"""How much of a listing a result can hold. Names come from the sandbox and may be as long and odd as it likes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from shared.files import FileEntry

LISTING_BYTES_MAX = 512 * 1024
"""Of the JSON that a listing becomes: well below what a state stream takes."""


def fit(
    entries: Sequence[FileEntry], *, bytes_max: int = LISTING_BYTES_MAX
) -> tuple[tuple[FileEntry, ...], bool]:
    """Return the first entries that fit, and whether some did not."""
    used = 0
    for index, entry in enumerate(entries):
        used += len(msgspec.json.encode(entry)) + 1
        if used > bytes_max:
            return tuple(entries[:index]), True
    return tuple(entries), False
