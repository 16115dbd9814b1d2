"""Which paths of a workspace no snapshot holds."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from typing import Final

from shared.limits import EXCLUDE_LENGTH_MAX, EXCLUDES_MAX

PATTERN_BYTES_MAX: Final = 4 * EXCLUDE_LENGTH_MAX
"""No character has more than four bytes."""


class Excludes:
    """Patterns as shells have them: `*`, `?` and `[…]`; `*` matches slashes, too.

    A pattern without a slash is matched with each name (`*.pyc`, `.cache`), one with a slash with the whole path from the
    workspace's root (`build/*`, `/tmp`). What lies below an excluded directory is excluded.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        """Compile them.

        Raises:
            ValueError: too many, too long, or an empty one.
        """
        if len(patterns) > EXCLUDES_MAX:
            raise ValueError(f"{len(patterns)} exclude patterns, at most {EXCLUDES_MAX}")
        for pattern in patterns:
            if not pattern.strip("/") or len(pattern.encode()) > PATTERN_BYTES_MAX:
                raise ValueError(
                    f"exclude pattern {pattern[:80]!r}: 1 to {PATTERN_BYTES_MAX} bytes"
                )
        self._names = _compile([one for one in patterns if "/" not in one])
        self._paths = _compile([one.strip("/") for one in patterns if "/" in one])

    def __bool__(self) -> bool:
        return self._names is not None or self._paths is not None

    def match(self, folder: bytes, name: bytes) -> bool:
        """Return whether the entry `name` of the directory `folder` is excluded.

        Args:
            folder: path from the root without a slash at either end, empty for the root.
            name: one name.
        """
        if self._names is not None and self._names.match(name):
            return True
        path = folder + b"/" + name if folder else name
        return self._paths is not None and self._paths.match(path) is not None


def _compile(patterns: Sequence[str]) -> re.Pattern[bytes] | None:
    """Return one expression for all patterns, None for none."""
    if not patterns:
        return None
    parts = [
        fnmatch.translate(one.encode("utf-8", "surrogateescape").decode("latin-1"))
        for one in patterns
    ]
    return re.compile("|".join(parts).encode("latin-1"))
