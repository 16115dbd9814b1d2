"""A burst that empties the pool while nodes die."""

from __future__ import annotations

import asyncio
import contextlib

from agent_sandbox import Client, ClientOptions
from chaos.core.dice import Dice
from chaos.nemesis.nodes import NodesKilled
from chaos.nemesis.processes import GONE_S
from chaos.nemesis.victims import own_pool
from chaos.ports import Injected, Site
from shared.errors import ServiceError

BURST = 60
BURST_SLEEPS_S = 6
EMPTY_S = 15.0


class NodesKilledInBurst(NodesKilled):
    """A share of the nodes is killed in a burst of batch work that has emptied the pool."""

    name = "nodes-killed-in-burst"

    def __init__(self, site: Site, dice: Dice) -> None:
        """See `Base`."""
        super().__init__(site, dice)
        self._crowd: asyncio.Task[None] | None = None
        self._asked = 0
        self._accepted = asyncio.Event()
        """All of the burst were."""

    async def inject(self) -> Injected:
        """See `Fault`."""
        self._crowd = asyncio.create_task(self._burst())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EMPTY_S):
                await self._accepted.wait()
        return await super().inject()

    async def _burst(self) -> None:
        pool = own_pool(self.site.folder)
        async with Client(ClientOptions(state=self.site.folder.path)) as client:

            async def one() -> None:
                with contextlib.suppress(ServiceError, TimeoutError):
                    running = await client.start(
                        ["sleep", str(BURST_SLEEPS_S)], pool=pool, klass="batch"
                    )
                    running.ignore_events()
                    self._asked += 1
                    if self._asked == BURST:
                        self._accepted.set()
                    await running.result()

            await asyncio.gather(*(one() for _ in range(BURST)))

    async def heal(self) -> None:
        """See `Fault`."""
        await super().heal()
        if self._crowd is not None:
            self._crowd.cancel()
            await asyncio.wait({self._crowd}, timeout=GONE_S)

    async def missed(self) -> str:
        """See `Base`."""
        said = await super().missed()
        return said or ("" if self._asked == BURST else f"{self._asked} of {BURST} were accepted")
