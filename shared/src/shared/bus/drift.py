"""How a stream or consumer differs from its declaration. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

_NEUTRAL: tuple[Any, ...] = (None, False, 0, -1, "", "none", "default", "instant", "all", {}, [])
"""Values that a server fills in for what a declaration leaves out."""
_NOT_COMPARED = frozenset({"metadata", "first_seq", "durable_name"})
"""The servers' own notes; the start of a new stream; a consumer's second name."""
_SETS = frozenset({"subjects", "filter_subjects"})


class Drift(msgspec.Struct, frozen=True):
    """One field that is not as declared."""

    kind: str
    """`stream` or `consumer`."""
    name: str
    field: str
    wanted: Any
    found: Any

    def __str__(self) -> str:
        """Say it in one line."""
        return f"{self.kind} {self.name}: {self.field} is {self.found!r}, declared {self.wanted!r}"


def find_drift(
    kind: str, name: str, wanted: Mapping[str, Any], found: Mapping[str, Any]
) -> list[Drift]:
    """Return each field that differs; a feature that is on without being declared differs, too."""
    drift = []
    for field in sorted(wanted.keys() | found.keys()):
        if field in _NOT_COMPARED:
            continue
        left, right = wanted.get(field), found.get(field)
        if not _same(field, left, right):
            drift.append(Drift(kind, name, field, left, right))
    return drift


def _same(field: str, wanted: Any, found: Any) -> bool:
    if wanted == found or (_neutral(wanted) and _neutral(found)):
        return True
    if field in _SETS and isinstance(wanted, list) and isinstance(found, list):
        return sorted(wanted) == sorted(found)
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return all(
            _same("", wanted.get(key), found.get(key)) for key in wanted.keys() | found.keys()
        )
    return False


def _neutral(value: Any) -> bool:
    return any(value == neutral and type(value) is type(neutral) for neutral in _NEUTRAL)
