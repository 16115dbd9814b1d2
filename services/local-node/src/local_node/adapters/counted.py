"""Starts, heartbeats and endings of pods, counted on their way."""

from __future__ import annotations

import time

from local_node.ports import Processes, Starter, Voice
from shared.messages import NodeBeat, PodGone, PodSpec
from shared.metrics import Book, declared


class CountedStarter:
    """A starter whose starts are timed."""

    def __init__(self, starter: Starter, book: Book) -> None:
        """Pass all on to `starter`."""
        self._starter, self._book = starter, book
        self.clean = starter.clean
        self.discard = starter.discard

    async def start(self, spec: PodSpec, isolation: str) -> Processes:
        """Start both halves of a pod.

        Raises:
            ServiceError: it could not be started; nothing of it runs.
        """
        began = time.monotonic()
        halves = await self._starter.start(spec, isolation)
        self._book.observe(declared.NODE_START, seconds=time.monotonic() - began)
        return halves


class CountedVoice:
    """A voice that notes what it says."""

    def __init__(self, voice: Voice, book: Book) -> None:
        """Speak through `voice`."""
        self._voice, self._book = voice, book

    async def gone(self, pool: str, gone: PodGone) -> None:
        """Say that all processes of a pod are gone."""
        self._book.add(declared.NODE_ENDED, gone.cause)
        await self._voice.gone(pool, gone)

    async def beat(self, beat: NodeBeat) -> None:
        """Say that the node lives, and which pods it has."""
        self._book.set(declared.NODE_PODS, value=len(beat.pods))
        self._book.set(declared.NODE_CAPACITY, value=beat.capacity)
        await self._voice.beat(beat)
