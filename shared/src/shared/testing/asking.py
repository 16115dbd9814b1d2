"""Requests in tests of permissions: those that must be refused, and those that somebody must answer."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest

from shared.bus import Bus, Message
from shared.errors import Forbidden, Unavailable
from shared.testing.wait import until


async def forbidden(*calls: Awaitable[object]) -> None:
    """Check that the servers refuse each call."""
    for call in calls:
        with pytest.raises(Forbidden):
            await call


async def ask(bus: Bus, subject: str, data: bytes = b"") -> Message:
    """Request until somebody listens: the news of a subscription takes a moment to reach the other servers."""
    answers: list[Message] = []

    async def is_answered() -> bool:
        try:
            answers.append(await bus.request(subject, data, timeout_s=5))
        except Unavailable:
            return False
        return True

    await until(is_answered)
    return answers[0]
