"""A token bucket: so many requests each second in the long run, so many at once after a rest."""

from __future__ import annotations

import msgspec


class Bucket(msgspec.Struct):
    """What one tenant has left."""

    per_s: float
    burst: float
    left: float
    at_s: float
    """Monotonic clock of the last look."""

    def take(self, now_s: float) -> float:
        """Take one request out; return 0, or the seconds after which there will be one."""
        self.left = min(self.burst, self.left + max(0.0, now_s - self.at_s) * self.per_s)
        self.at_s = max(now_s, self.at_s)
        if self.left >= 1:
            self.left -= 1
            return 0.0
        return (1 - self.left) / self.per_s


def full(per_s: float, burst: float, now_s: float) -> Bucket:
    """Return a bucket after a rest."""
    return Bucket(per_s=per_s, burst=burst, left=burst, at_s=now_s)
