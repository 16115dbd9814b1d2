"""One check of `doctor`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was found, and what to do about it."""

    name: str
    verdict: Literal["ok", "warn", "fail"]
    found: str
    do: str = ""
    """What to do; empty where nothing is."""
    details: dict[str, str] = {}
    """Of isolation: class -> empty if it is here, else why not. Of others: what is wrong -> why."""


def ok(name: str, found: str, details: Mapping[str, str] | None = None) -> Check:
    """Nothing to do."""
    return Check(name=name, verdict="ok", found=found, details=dict(details or {}))


def warn(name: str, found: str, do: str, details: Mapping[str, str] | None = None) -> Check:
    """It works, with less than there could be."""
    return Check(name=name, verdict="warn", found=found, do=do, details=dict(details or {}))


def fail(name: str, found: str, do: str, details: Mapping[str, str] | None = None) -> Check:
    """It will not work."""
    return Check(name=name, verdict="fail", found=found, do=do, details=dict(details or {}))
