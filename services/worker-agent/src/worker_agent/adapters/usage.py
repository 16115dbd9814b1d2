"""What a sandbox uses of what the kernel does not bound, and how much of its files has changed: looked at while a task runs."""

from __future__ import annotations

import asyncio

from shared.pools import PodLimits
from worker_agent.adapters import kernel
from worker_agent.adapters.disk import Disk
from worker_agent.core.looks import INTERVAL_S
from worker_agent.pod import SandboxFacts

REST_S = 3600.0
"""Pause where there is nothing to look at."""


class Usage:
    """Of one sandbox."""

    def __init__(self, facts: SandboxFacts, limits: PodLimits) -> None:
        """Look at nothing yet."""
        self._facts, self._limits = facts, limits
        folders = [folder for folder in (facts.workspace, facts.scratch) if folder]
        self._disk = Disk(folders, limits.disk_mib)

    @property
    def changed_bytes(self) -> int | None:
        """See `ports.Sandbox`."""
        return self._disk.changed_bytes

    def count_changes(self, since_ms: int) -> None:
        """See `ports.Sandbox`."""
        self._disk.count_changes(since_ms * 1_000_000)

    async def wait_passed(self) -> str:
        """Return which watched limit the sandbox has passed, in words, once it has."""
        interval_s = INTERVAL_S if self._facts.watch else REST_S
        while True:
            await asyncio.sleep(interval_s)
            passed = await kernel.look(self._facts, self._limits, self._disk)
            if passed is not None:
                return passed
