"""A synchronous client as an asynchronous one: each call on a thread, so that both pass the same tests."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any, Self

KINDS = ("SyncClient", "SyncDeadLetters", "SyncObjects", "SyncSession", "SyncShell", "SyncTask")
"""What is wrapped, by its name: `shared` does not know the client."""
PLAIN = {
    ("SyncClient", "session"),
    ("SyncSession", "attach"),
    ("SyncSession", "shell"),
    ("SyncShell", "detach"),
}
"""Methods that the async twin has as plain ones."""
ITERATORS = {
    ("SyncTask", "events"),
    ("SyncShell", "events"),
    ("SyncObjects", "read"),
    ("SyncSession", "diff"),
}


class Threaded:
    """A synchronous object as its async twin."""

    def __init__(self, wrapped: Any) -> None:
        """Wrap it."""
        self.wrapped = wrapped

    async def __aenter__(self) -> Self:
        """Enter it."""
        assert await asyncio.to_thread(self.wrapped.__enter__) is self.wrapped
        return self

    async def __aexit__(self, *exc: Any) -> None:
        """Leave it."""
        await asyncio.to_thread(self.wrapped.__exit__, *exc)

    def __getattr__(self, name: str) -> Any:
        """Return a property as it is, a method as what is awaited or iterated over."""
        found = getattr(self.wrapped, name)
        if not callable(found):
            return _wrap(found)
        if (type(self.wrapped).__name__, name) in ITERATORS:
            return functools.partial(_iterate, found)
        if (type(self.wrapped).__name__, name) in PLAIN:
            return lambda *given, **options: _wrap(found(*given, **options))

        async def call(*given: Any, **options: Any) -> Any:
            return _wrap(await asyncio.to_thread(functools.partial(found, *given, **options)))

        return call


def _wrap(value: Any) -> Any:
    return Threaded(value) if type(value).__name__ in KINDS else value


async def _iterate(found: Any, *given: Any) -> AsyncIterator[Any]:
    items: Iterator[Any] = await asyncio.to_thread(lambda: iter(found(*given)))
    end = object()
    while (item := await asyncio.to_thread(next, items, end)) is not end:
        yield item
