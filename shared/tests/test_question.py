"""Questions on the bus."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from shared.bus.question import Question
from shared.bus.types import Message


async def test_an_answer_between_the_cancellation_and_its_notice_is_not_lost() -> None:
    """The asker's task learns of it one turn of the loop later; a delivery may come in just then."""
    question = Question("a.subject", None)
    message = Message("a.subject", b"late", {})

    async def ask() -> None:
        await question.future

    asking = asyncio.create_task(ask())
    await asyncio.sleep(0)
    asking.cancel()
    question.answer(message)  # the reader's turn comes before the asker's
    with suppress(asyncio.CancelledError):
        await asking

    assert question.unheard == message
