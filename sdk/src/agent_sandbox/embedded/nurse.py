"""Services that run and hang: one whose event loop stands still, or that answers no probe, is killed and so started
anew, as a liveness probe does it on Kubernetes. One that is merely not ready is left alone: a restart would not help.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.probing import probe_all, write_targets
from shared import logs

log = logs.get(__name__)

EVERY_S = 2.5
HUNG_S = 15.0
"""So long must nothing but bad answers, or none, have come. A process that was stopped for a while goes on before."""


class Nurse:
    """Looks at all services again and again."""

    def __init__(
        self,
        folder: Folder,
        running: Callable[[], Mapping[str, str]],
        kill: Callable[[str], None],
    ) -> None:
        """Look at nothing yet.

        Args:
            folder: the cluster's.
            running: returns the services that run: name -> kind.
            kill: called with the name of one that hangs.
        """
        self._folder, self._running, self._kill = folder, running, kill
        self._since: dict[str, tuple[str, float]] = {}
        """Service -> URL of its probes, which is another for each process, and since when it was not live."""

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(EVERY_S)

    async def look(self) -> None:
        """Look at each service once."""
        running = self._running()
        seen = await probe_all(self._folder, running)
        await asyncio.to_thread(write_targets, self._folder, dict(running))
        now = time.monotonic()
        for name, view in seen.items():
            if view.live or not view.url:
                self._since.pop(name, None)
                continue
            url, since = self._since.get(name, ("", 0.0))
            if url != view.url:
                self._since[name] = (view.url, now)
            elif now - since >= HUNG_S:
                log.warning("service.killed", name=name, why=view.why)
                del self._since[name]
                self._kill(name)
