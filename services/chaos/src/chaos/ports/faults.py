"""A fault, as the schedule sees it: injected once, healed once."""

from __future__ import annotations

from typing import Protocol

import msgspec

from chaos.core.dice import Dice

__all__ = ["Dice", "Fault", "Injected", "NoVictim"]


class Injected(msgspec.Struct, frozen=True, kw_only=True):
    """What was done, and when."""

    fault: str
    """Its name in the registry."""
    targets: tuple[str, ...]
    """Names of what was hit, as the supervisor's table has them: `node-3`, `nats-1`, …"""
    at_s: float
    """The injector's monotonic clock (`Site.now`) just before the first target was hit: times counted from here are
    rather too long than too short."""
    detail: str = ""
    """For people."""


class NoVictim(Exception):
    """There is nothing to do the fault to, now or within its own bound; nothing was changed."""


class Fault(Protocol):
    """One fault. A new one is made for each injection."""

    name: str

    async def inject(self) -> Injected:
        """Do it; return when it is done.

        Raises:
            NoVictim: nothing was changed.
        """
        ...

    async def heal(self) -> None:
        """Take it back, whatever of it was done; may be called twice, and where nothing was done."""
        ...

    async def missed(self) -> str:
        """Return why it can't be shown that it did bite; empty: it did. Asked once it is healed."""
        ...

    async def failed(self) -> str:
        """Return what the fault itself saw go wrong in the system; empty: nothing. Asked once it is healed."""
        ...
