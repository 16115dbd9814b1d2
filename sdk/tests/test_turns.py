"""How many publishes of one client are under way at once."""

from __future__ import annotations

import asyncio

import pytest

from agent_sandbox import turns
from agent_sandbox.orders import Order
from agent_sandbox.turns import PublishTurns
from shared.errors import Unavailable

ORDER = Order(tenant="t", session="task-0001", task="task-0001", body=b"", pool="p", wait_s=1)


async def test_a_publish_without_a_turn_was_surely_not_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It names the bound; when a turn is free again the next goes."""
    release = asyncio.Event()

    async def start(*_: object, **__: object) -> str:
        await release.wait()
        return "started"

    monkeypatch.setattr(turns, "start_task", start)
    publishing = PublishTurns(most=1)
    bus: object = None
    first = asyncio.create_task(publishing.start(bus, ORDER, deadline_s=5))  # type: ignore[arg-type]  # not used
    await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="PUBLISHES_MAX"):
        await publishing.start(bus, ORDER, deadline_s=0.05)  # type: ignore[arg-type]  # not used

    release.set()
    assert await first == "started"  # type: ignore[comparison-overlap]  # what the stand-in returns
    assert await publishing.start(bus, ORDER, deadline_s=5) == "started"  # type: ignore[arg-type, comparison-overlap]  # not used
