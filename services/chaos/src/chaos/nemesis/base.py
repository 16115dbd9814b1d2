"""What all faults have: a name, what must be laid before the cluster comes up, and an answer to whether they did bite."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, ParamSpec, TypeVar

from agent_sandbox.embedded.procs import ProcessId
from chaos.core.dice import Dice
from chaos.nemesis.processes import alive
from chaos.ports import Ground, Injected, Need, NoVictim, Site

P = ParamSpec("P")
T = TypeVar("T")


class Base(ABC):
    """A fault of a site. Made for one injection."""

    name: str
    needs: ClassVar[frozenset[Need]] = frozenset()
    """What `ground.laid` must have prepared before the cluster came up."""
    lasts_s: ClassVar[float] = 20.0
    """How long it stays before it is healed, where it is done alone, seconds."""

    def __init__(self, site: Site, dice: Dice) -> None:
        """Do nothing yet.

        Args:
            site: the cluster; it is this run's own.
            dice: draw the targets.
        """
        self.site, self.dice = site, dice
        self._holds = False

    @abstractmethod
    async def inject(self) -> Injected:
        """Do it. See `Fault`."""

    async def heal(self) -> None:
        """Take it back. See `Fault`."""
        self.release()

    @abstractmethod
    async def missed(self) -> str:
        """Return why it can't be shown that it did bite; empty: it did. Asked after `heal`."""

    async def failed(self) -> str:
        """Return what the fault itself saw go wrong in the product; empty: nothing. Asked after `heal`."""
        return ""

    # --- for those that derive ---------------------------------------------------------------------------------------

    @property
    def ground(self) -> Ground:
        """What was laid for it.

        Raises:
            NoVictim: not what it needs.
        """
        ground = self.site.ground
        if lacking := self.needs - ground.laid:
            raise NoVictim(f"the ground lacks {', '.join(sorted(lacking))}")
        return ground

    def nodes(self) -> dict[str, ProcessId]:
        """Return the nodes that run."""
        return alive(self.site.rows("node"))

    def hold(self) -> None:
        """Keep dead what dies from now on, until `release`."""
        if not self._holds:
            self.site.hold()
            self._holds = True

    def release(self) -> None:
        """Take this fault's own hold back."""
        if self._holds:
            self._holds = False
            self.site.release()

    def done(self, targets: Sequence[str], at_s: float, detail: str = "") -> Injected:
        """Return what was done."""
        return Injected(fault=self.name, targets=tuple(targets), at_s=at_s, detail=detail)


async def aside(act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call what blocks in a thread, and wait for its end even when cancelled: what it began must be known."""
    working = asyncio.ensure_future(asyncio.to_thread(act, *args, **kwargs))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working}, timeout=60)
        raise
