"""How much of an edge each tenant takes, so that none takes all. Pure bookkeeping."""

from __future__ import annotations

from collections import Counter


class Shares:
    """Connections and half-sent bytes by tenant; those of nobody in particular count as one more tenant's."""

    def __init__(self, connections_max: int, half_sent_bytes_max: int) -> None:
        """Hold each tenant to these bounds."""
        self.connections_max = connections_max
        self.half_sent_bytes_max = half_sent_bytes_max
        self._connections: Counter[str] = Counter()
        self._held: Counter[str] = Counter()

    def enter(self, tenant: str) -> bool:
        """Count a connection of a tenant; False, and it is not counted: it has as many as it may."""
        if self._connections[tenant] >= self.connections_max:
            return False
        self._connections[tenant] += 1
        return True

    def leave(self, tenant: str) -> None:
        """Count one connection less."""
        self._take(self._connections, tenant, 1)

    def hold(self, tenant: str, more_bytes: int) -> bool:
        """Count bytes that are held for a tenant, fewer where negative; return whether it may have so many."""
        if more_bytes < 0:
            self._take(self._held, tenant, -more_bytes)
        else:
            self._held[tenant] += more_bytes
        return self._held[tenant] <= self.half_sent_bytes_max

    @staticmethod
    def _take(counted: Counter[str], tenant: str, less: int) -> None:
        counted[tenant] -= less
        if counted[tenant] <= 0:
            del counted[tenant]  # a tenant that is gone leaves nothing behind
