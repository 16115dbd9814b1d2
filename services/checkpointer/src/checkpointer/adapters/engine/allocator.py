"""The C library's allocator, which would keep most of what a save has freed for the next one."""

from __future__ import annotations

import ctypes
import os
from typing import Final

MAPPED_BYTES: Final = 8 << 20
"""Blocks from this size on are mapped on their own: what they held goes back when they are freed. A window of a large file, read
again and again (`WINDOW_BYTES`), must be smaller: each mapping is filled with zeroes first."""
KEPT_BYTES: Final = 16 << 20
"""Of what is free at the end of the heap so much stays at most."""
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


def bound_allocator() -> bool:
    """Let it give memory back, for the whole process; return whether this C library (glibc) can be told so.

    By itself it raises both bounds, to 32 and 64 MiB, once a large block was freed.
    """
    if "CS_GNU_LIBC_VERSION" not in os.confstr_names:
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)) and bool(
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
    )
