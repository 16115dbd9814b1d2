"""A zygote that is replaced when it dies: the node and its other pods go on."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from local_node.adapters.zygote import protocol
from local_node.adapters.zygote.child import ZygoteChild
from local_node.adapters.zygote.client import Zygote, ZygoteConfig
from shared import logs
from shared.errors import Unavailable

log = logs.get(__name__)

DEATHS_MAX = 5
DEATHS_WITHIN_S = 30.0
"""A zygote that dies more often is not replaced: something is wrong that a new one does not mend."""


class KeptZygote:
    """One zygote after the other."""

    def __init__(self, config: ZygoteConfig, on_death: Callable[[str], None]) -> None:
        """Describe it; the first use launches it.

        Args:
            config: what to start.
            on_death: called with its name when it died and could not be, or shall not be, replaced.
        """
        self._config = config
        self._on_death = on_death
        self._zygote: Zygote | None = None
        self._launching = asyncio.Lock()
        self._replacing: set[asyncio.Task[None]] = set()
        self._dead: list[Zygote] = []
        """Those whose children are not all gone yet."""
        self._deaths: deque[float] = deque(maxlen=DEATHS_MAX)
        self.facts: protocol.Request = {}
        """What it said of itself when it was ready."""

    async def launch(self) -> Zygote:
        """Return the zygote that lives; start one where none does.

        Raises:
            Unavailable: it could not be configured; says why.
        """
        async with self._launching:
            if self._zygote is not None and not self._zygote.is_gone:
                return self._zygote
            zygote = Zygote(self._config, lambda _name: self._replace(zygote))
            await zygote.launch()
            self._zygote, self.facts = zygote, zygote.facts
            return zygote

    async def start(
        self, request: protocol.Request, fds: tuple[int, ...], *, timeout_s: float
    ) -> ZygoteChild:
        """Fork a child, as `Zygote.start`; once more where the zygote died meanwhile, as nothing runs then.

        Raises:
            StartRefused: no child was made; says why.
            Unavailable: the zygote is gone or does not answer.
        """
        zygote = await self.launch()
        try:
            return await zygote.start(request, fds, timeout_s=timeout_s)
        except Unavailable:
            if not zygote.is_gone:
                raise
        return await (await self.launch()).start(request, fds, timeout_s=timeout_s)

    async def close(self) -> None:
        """End it and all its children."""
        for task in list(self._replacing):
            task.cancel()
            await asyncio.wait({task})
        for zygote in self._dead:
            await zygote.close()
        if self._zygote is not None:
            await self._zygote.close()

    def _replace(self, dead: Zygote) -> None:
        self._dead.append(dead)
        task = asyncio.get_running_loop().create_task(self._succeed(dead))
        self._replacing.add(task)
        task.add_done_callback(self._replacing.discard)

    async def _succeed(self, dead: Zygote) -> None:
        """Start the next one at once, so that no pod waits for it, then see the dead one's remains off."""
        began = time.monotonic()
        while not self._dies_often():
            try:
                await self.launch()
            except Unavailable as exc:
                log.warning("zygote.launch_failed", zygote=self._config.name, error=str(exc))
            else:
                took_ms = round((time.monotonic() - began) * 1000)
                log.info("zygote.replaced", zygote=self._config.name, took_ms=took_ms)
                break
        else:
            log.error("zygote.given_up", zygote=self._config.name, deaths=DEATHS_MAX + 1)
            self._on_death(self._config.name)
        await dead.buried()
        self._dead.remove(dead)

    def _dies_often(self) -> bool:
        """Count one death, or one launch that failed; return whether there were too many of late."""
        now = time.monotonic()
        often = len(self._deaths) == DEATHS_MAX and now - self._deaths[0] < DEATHS_WITHIN_S
        self._deaths.append(now)
        return often
