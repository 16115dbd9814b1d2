"""Two reports side by side."""

from __future__ import annotations

import msgspec

from chaos.core.report.data import Findings, Target


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of both."""

    name: str
    a: float | None
    b: float | None
    target: Target | None = None

    @property
    def change(self) -> float | None:
        """How much larger the second is than the first, as a share of it; None: it can't be said."""
        if self.a is None or self.b is None or self.a == 0:
            return None
        return self.b / self.a - 1

    @property
    def state(self) -> str:
        """What became of its target, in a word."""
        if self.target is None or self.a is None or self.b is None:
            return ""
        before, after = self.target.is_met(self.a), self.target.is_met(self.b)
        return {(True, False): "now missed", (False, True): "now reached"}.get((before, after), "")


def compare(a: Findings, b: Findings) -> list[Row]:
    """Return every figure that either has, in the order of the first."""
    names = [*a.figures, *(name for name in b.figures if name not in a.figures)]
    return [
        Row(name=name, a=a.figures.get(name), b=b.figures.get(name), target=a.targets.get(name))
        for name in names
    ]
