"""Names of content: an id is the blake3 hash of raw bytes."""

from __future__ import annotations

from typing import Final

import blake3

_blake3: Final = blake3.blake3


def make_id(data: bytes | memoryview) -> bytes:
    """Return the id of these raw bytes."""
    return _blake3(data).digest()
