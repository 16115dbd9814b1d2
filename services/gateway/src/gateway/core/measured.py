"""Which time was measured for which task: remembered for those who ask later, within bounds."""

from __future__ import annotations

from collections import OrderedDict

from shared.rest import Tti

TENANT_TASKS_MAX = 2_000
TASKS_MAX = 20_000
"""Some 10 MB."""
Place = tuple[str, str, str]
"""Tenant, session, task."""


class Measured:
    """The newest measurements; beyond a bound the oldest is forgotten, and the servers' stamps say it from then on."""

    def __init__(self, *, tenant_max: int = TENANT_TASKS_MAX, most: int = TASKS_MAX) -> None:
        """Remember so many of one tenant and of all."""
        self._tenant_max, self._most = tenant_max, most
        self._by_tenant: dict[str, OrderedDict[tuple[str, str], Tti]] = {}
        self._count = 0

    def put(self, place: Place, tti: Tti) -> bool:
        """Remember what was measured, and return whether that says more of the task than what was known.

        The first word stands, but a caller's stands above what is left where none heard it.
        """
        tenant, *names = place
        own = self._by_tenant.setdefault(tenant, OrderedDict())
        key = (names[0], names[1])
        if (known := own.get(key)) is not None:
            says_more = tti.measured_by == "caller" and known.measured_by != "caller"
            if says_more:
                own[key] = tti
            return says_more
        own[key] = tti
        self._count += 1
        if len(own) > self._tenant_max:
            self._forget_oldest(tenant)
        elif self._count > self._most:
            self._forget_oldest(max(self._by_tenant, key=lambda name: len(self._by_tenant[name])))
        return True

    def get(self, place: Place) -> Tti | None:
        """Return what was measured for a task, if it is remembered."""
        tenant, session, task = place
        return self._by_tenant.get(tenant, OrderedDict()).get((session, task))

    def _forget_oldest(self, tenant: str) -> None:
        own = self._by_tenant[tenant]
        own.popitem(last=False)
        self._count -= 1
        if not own:
            del self._by_tenant[tenant]
