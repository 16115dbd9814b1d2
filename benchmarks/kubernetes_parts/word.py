"""A node that has a disk of its own loses power: what its pool says, how long nothing moves, and how soon all goes on by proof."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass

from harness.running import CannotMeasure, say
from harness.site import Site

from shared.errors import ServiceError

IS_OFF = "agent-sandbox.dev/is-off"
TOLD_S = 120.0
"""Longest wait for the pool to name the command that would be the proof: Kubernetes itself needs some 47 s to notice."""
ASKED_MAX = 20
"""So often the pool-managers are asked until one answers: the other one may have been on that node."""


@dataclass
class Word:
    """The operator's word that a node is off, given once the pool has asked for it and some time has passed."""

    without_s: float
    """So long it is not given."""
    told_s: float | None = None
    """From the loss of the node until the pool said what is missing."""
    given_at: float | None = None
    """Monotonic clock."""

    async def give(self, site: Site, pool: str, node: str, began: float) -> None:
        """Wait until it is asked for, wait on, and give it.

        Args:
            site: the system.
            pool: whose volume the node has.
            node: that lost power.
            began: when, monotonic clock.

        Raises:
            CannotMeasure: it is not asked for in time, or the volume moved without it.
        """
        reason = ""
        while f"{node} {IS_OFF}=" not in reason:
            if time.monotonic() - began > TOLD_S:
                raise CannotMeasure(f"the pool does not say what it waits for: {reason}")
            await asyncio.sleep(0.5)
            reason = await _reason(site, pool) or reason
        self.told_s = time.monotonic() - began
        say(f"after {self.told_s:.0f} s: {reason}")
        while time.monotonic() - began < self.without_s:  # noqa: ASYNC110 - the passing of time is what is measured
            await asyncio.sleep(0.5)
        if IS_OFF not in (reason := await _reason(site, pool)):
            raise CannotMeasure(f"it went on without a proof: {reason}")
        kubectl = site.kubectl
        found = await asyncio.to_thread(kubectl.get, "node", node)
        word = f"{IS_OFF}={found['status']['nodeInfo']['bootID']}"
        await asyncio.to_thread(kubectl.run, "annotate", "node", node, word, "--overwrite")
        self.given_at = time.monotonic()
        say(f"after {self.given_at - began:.0f} s: the word is given")


async def _reason(site: Site, pool: str) -> str:
    for _ in range(ASKED_MAX):
        with contextlib.suppress(ServiceError, CannotMeasure):
            return (await site.view(pool)).reason
        await asyncio.sleep(0.5)
    return ""
