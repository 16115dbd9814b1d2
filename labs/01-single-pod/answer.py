"""The answer: a sandbox for each session. Its neighbours are on the other side of walls that the kernel holds."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from pathlib import Path

import payloads
from drive import PODS_SECRET, drive

from agent_sandbox import Session
from labs.cluster import embedded, fresh_folder
from labs.frame import Figures, Say, side
from shared.pools import PodLimits, PoolSpec

POOL = PoolSpec(
    name="labs", stock=payloads.SESSIONS, limits=PodLimits(memory_mib=payloads.MEMORY_MIB)
)


class Sandboxes:
    """Each session in a sandbox of its own."""

    def __init__(self, sessions: list[Session], secret: Path) -> None:
        """Use these sessions, on a machine with this file."""
        self._sessions = sessions
        self.secret = str(secret)

    async def run(self, session: int, code: str) -> str | None:
        """Run a session's task; return what it printed, None: it died."""
        result = await self._sessions[session].python(code)
        return result.stdout.strip() or None if result.ok else None

    async def restart(self) -> None:
        """Do nothing: who died was alone."""


async def measure(say: Say) -> Figures:
    """Let all eight work in sandboxes."""
    os.environ["MODEL_KEY"] = PODS_SECRET  # the services and their workers have it, too
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(fresh_folder())
        secret = folder / "model-key"
        secret.write_text(PODS_SECRET)
        secret.chmod(0o644)
        cluster = await stack.enter_async_context(embedded((POOL,), say))
        view = await cluster.wait_full(POOL.name, POOL.stock)
        client = await stack.enter_async_context(cluster.client())
        sessions = [
            await stack.enter_async_context(await client.create_session(pool=POOL.name))
            for _ in range(payloads.SESSIONS)
        ]
        figures = await drive(Sandboxes(sessions, secret), say)
        return figures | {"isolation": "+".join(sorted(view.classes))}


if __name__ == "__main__":
    side(measure)
