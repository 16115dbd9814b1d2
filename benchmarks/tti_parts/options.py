"""What the parts of `tti` are told, and what they hand back."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.pictures import Series
from harness.report import Report


@dataclass(frozen=True)
class Options:
    """What was said on the command line."""

    seconds: float
    rate: float
    stock: int
    isolation: str
    caller: str
    """`library` or `bare`: how the client publishes and listens."""


@dataclass
class Run:
    """One run of the benchmark."""

    options: Options
    report: Report
    series: list[Series] = field(default_factory=list)
    isolation: set[str] = field(default_factory=set)
    """Classes that the sandboxes really had."""
