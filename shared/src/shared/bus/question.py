"""A request whose answers are awaited."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from shared.bus.types import Message
from shared.errors import OutcomeUnknown, ServiceError, Unavailable


class NobodyListens(Unavailable):
    """No one subscribes to the subject: surely not taken. A stream that elects its leader looks like this, too."""


def says_nobody_listens(answer: Message) -> bool:
    """Return whether this is the server's word that nobody listens."""
    return not answer.data and answer.headers.get("Status") == "503"


class Question:
    """A request whose answers are awaited: one, or several until `take` says that they are complete."""

    __slots__ = ("future", "headers", "missed", "sent_at", "subject", "take")

    def __init__(
        self,
        subject: str,
        take: Callable[[Message], bool] | None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Make a question.

        Args:
            subject: where it goes.
            take: called with each answer; returns whether it was the last. None: the first answer is the last.
            headers: those of the request: a refusal can be about one of them.
        """
        self.subject = subject
        self.headers = headers
        self.take = take
        self.sent_at = time.monotonic()
        self.missed: Message | None = None
        """An answer that came when the question had just ended: between its cancellation and its asker's notice of it."""
        self.future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    def answer(self, message: Message) -> None:
        """Take an answer."""
        if self.future.done():
            self.missed = message
        elif self.take is None or self.take(message):
            self.future.set_result(message)

    @property
    def unheard(self) -> Message | None:
        """The answer that came although its asker has gone: just before it left, or just after."""
        future = self.future
        if future.done() and not future.cancelled() and future.exception() is None:
            return future.result()
        return self.missed

    def fail(self, error: ServiceError) -> None:
        """End the question with an error."""
        if not self.future.done():
            self.future.set_exception(error)

    def expire(self) -> None:
        """End the question for lack of an answer."""
        self.fail(OutcomeUnknown(f"no answer on {self.subject}"))
