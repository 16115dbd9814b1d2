"""Python's own collector of cycles, which would look at a million tuples of a scan again and again."""

from __future__ import annotations

import gc
from typing import Final

YOUNG_MAX: Final = 200_000
"""New objects before it looks at them: a save makes that many for 20,000 files, and no cycles."""
OLDER: Final = 20


def calm_collector() -> None:
    """Let it look less often, for the whole process: a first save of many files keeps most of what it makes."""
    gc.set_threshold(YOUNG_MAX, OLDER, OLDER)
