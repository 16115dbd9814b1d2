"""Names that no other test of a run uses, so that tests can share one cluster."""

from __future__ import annotations

import itertools
import os

_numbers = itertools.count(1)


def unique(prefix: str) -> str:
    """Return a name of small letters, digits and dashes that was not given before."""
    return f"{prefix}-{os.getpid()}-{next(_numbers)}"
