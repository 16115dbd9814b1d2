"""The faults, by name."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from chaos.ports import Fault, Site

FAULTS: dict[str, Callable[[Site, Random], Fault]] = {}
"""What makes each: `FAULTS[name](site, random)`. Its targets are drawn from `random` when it is injected."""
