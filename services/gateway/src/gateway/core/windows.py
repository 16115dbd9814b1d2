"""Times to interactive of the last minutes, by tenant, pool and path: a sliding window, and what it says."""

from __future__ import annotations

from array import array
from bisect import bisect_right

import msgspec

from shared.messages import StartPath
from shared.rest import Tti, TtiRow
from shared.tti import summarize

Key = tuple[str, str, StartPath]
"""Tenant, pool, path."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How much is remembered. What comes on top takes the place of what is oldest."""

    window_s: float = 600.0
    samples_max: int = 1_000
    """Of one row, 16 bytes each."""
    tenant_rows_max: int = 60
    """Rows of one tenant: of those, the one that was fed longest ago goes. So no tenant costs another its own, but by"""
    rows_max: int = 1_000
    """… the number of tenants."""


class Windows:
    """What was measured within the window."""

    def __init__(self, bounds: Bounds) -> None:
        """Remember nothing yet."""
        self.bounds = bounds
        self._rows: dict[Key, _Samples] = {}
        """In the order in which they were fed last."""

    def add(self, tenant: str, pool: str, tti: Tti, now_s: float) -> None:
        """Take a measurement in.

        Args:
            tenant: whose task it was.
            pool: where it ran.
            tti: what was measured.
            now_s: monotonic clock.
        """
        key = (tenant, pool, tti.path)
        row = self._rows.pop(key, None)
        if row is None:
            row = _Samples()
            own = [known for known in self._rows if known[0] == tenant]
            if len(own) >= self.bounds.tenant_rows_max:
                del self._rows[own[0]]
            elif len(self._rows) >= self.bounds.rows_max:
                del self._rows[next(iter(self._rows))]
        self._rows[key] = row
        row.add(now_s, tti.tti_ms, self.bounds.samples_max)

    def rows(self, tenant: str, now_s: float) -> tuple[TtiRow, ...]:
        """Return the statistics of one tenant, by pool and path; rows whose samples are all too old are forgotten."""
        found = []
        for key in sorted(known for known in self._rows if known[0] == tenant):
            row = self._rows[key]
            row.expire(now_s - self.bounds.window_s)
            if row.values_ms:
                found.append(summarize(key[1], key[2], row.values_ms))
            else:
                del self._rows[key]
        return tuple(found)


class _Samples:
    """Values with their times, oldest first."""

    def __init__(self) -> None:
        self.times_s = array("d")
        self.values_ms = array("d")

    def add(self, at_s: float, value_ms: float, most: int) -> None:
        self.times_s.append(at_s)
        self.values_ms.append(value_ms)
        self._drop(len(self.times_s) - most)

    def expire(self, before_s: float) -> None:
        self._drop(bisect_right(self.times_s, before_s))

    def _drop(self, count: int) -> None:
        if count > 0:
            del self.times_s[:count]
            del self.values_ms[:count]
