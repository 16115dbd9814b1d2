"""What pool-managers tell workers about tenants that have as many sessions as they may."""

from __future__ import annotations

from typing import Final

import msgspec

from shared.messages import Message

FULL_EVERY_S: Final = 2.0
"""While a tenant is full, it is said so often."""
FULL_LASTS_S: Final = 6.0
"""What was said holds for so long: a worker that missed the all-clear takes the tenant's work again after it."""


class TenantFull(msgspec.Struct, frozen=True):
    """A tenant that gets no new session until others of its sessions have ended."""

    tenant: str
    sessions: int
    """Its sessions that have not ended."""
    sessions_max: int


class FullTenants(Message, frozen=True, kw_only=True, omit_defaults=True):
    """All full tenants; empty once, when the last of them has room again."""

    full: tuple[TenantFull, ...] = ()
