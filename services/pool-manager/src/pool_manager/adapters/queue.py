"""The lanes over the queue streams."""

from __future__ import annotations

import time
from contextlib import suppress

from pool_manager.adapters.truth import note_time
from pool_manager.core.clock import ServerClock
from pool_manager.ports import LaneMessage
from shared import headers, subjects
from shared.bus import Bus
from shared.errors import NotFound, OutcomeUnknown, Unavailable
from shared.ids import SHARDS, home
from shared.record import Record
from shared.traces import read_context

ATTEMPT_S = 0.5
SHARD_S = 1.0
"""How long one shard may take to store a token, before the next one is asked."""
COUNT_S = 1.0
"""How long a shard may take to say what it holds: who waits for it rings for the others meanwhile no more."""
DOWN_S = 2.0
"""A shard that did not is left alone for so long."""


class StreamQueue:
    """Implements `ports.Queue`."""

    def __init__(self, bus: Bus, clock: ServerClock | None = None) -> None:
        """Use the service's connection; `clock` learns the servers' time from their answers."""
        self._bus = bus
        self._clock = clock or ServerClock()
        self._down_until = [0.0] * SHARDS

    async def send_token(self, record: Record, message_id: str) -> None:
        """Put a token into the lane of the record's pool, on its home shard or the next that answers."""
        first = home(record.session)
        order = [(first + step) % SHARDS for step in range(SHARDS)]
        now = time.monotonic()
        order.sort(key=lambda shard: self._down_until[shard] > now)
        for last, shard in enumerate(order, start=1):
            try:
                await self._bus.publish_acked(
                    subjects.queue(shard, record.tenant, record.pool, record.lane),
                    b"",
                    message_id=message_id,
                    headers={headers.TOKEN: record.session},
                    attempt_s=ATTEMPT_S,
                    deadline_s=SHARD_S,
                )
            except (OutcomeUnknown, Unavailable):
                self._down_until[shard] = time.monotonic() + DOWN_S
                if last == SHARDS:
                    raise
            else:
                return

    async def counts(self, shard: int) -> dict[tuple[str, str], int]:
        """Return how many messages each (pool, class) has in this shard, those in workers' hands included."""
        info = await self._bus.js_api(
            f"STREAM.INFO.{subjects.queue_stream(shard)}",
            {"subjects_filter": ">"},
            timeout_s=COUNT_S,
        )
        note_time(self._clock, info)
        counts: dict[tuple[str, str], int] = {}
        for subject, count in (info["state"].get("subjects") or {}).items():
            _, _, pool, klass = subjects.parse_queue(subject)
            counts[pool, klass] = counts.get((pool, klass), 0) + int(count)
        return counts

    async def undelivered(self, shard: int, pool: str, klass: str) -> int:
        """Return how many messages of a lane nobody has been handed yet."""
        stream, consumer = subjects.queue_stream(shard), subjects.consumer(pool, klass)
        path = f"CONSUMER.INFO.{stream}.{consumer}"
        return int((await self._bus.js_api(path, timeout_s=COUNT_S))["num_pending"])

    async def next_message(
        self, shard: int, pool: str, klass: str, after_seq: int
    ) -> LaneMessage | None:
        """Return the lane's message that follows stream sequence `after_seq`."""
        stored = await self._bus.read_next(
            subjects.queue_stream(shard),
            subjects.queue(shard, "*", pool, klass),
            after_seq=after_seq,
        )
        if stored is None:
            return None
        _, tenant, _, _ = subjects.parse_queue(stored.subject)
        return LaneMessage(
            shard=shard,
            tenant=tenant,
            pool=pool,
            klass=klass,
            seq=stored.seq,
            accepted_ms=stored.time_ms,
            body=stored.data,
            token=stored.headers.get(headers.TOKEN),
            message_id=headers.own_id(stored.headers.get(headers.MESSAGE_ID), tenant),
            replay_of=stored.headers.get(headers.REPLAY_OF, ""),
            trace=read_context(stored.headers),
        )

    async def remove(self, shard: int, seq: int) -> None:
        """Take a message off its lane."""
        with suppress(NotFound):
            await self._bus.js_api(
                f"STREAM.MSG.DELETE.{subjects.queue_stream(shard)}",
                {"seq": seq, "no_erase": True},
            )

    async def ring(self, pool: str, klass: str, shard: int) -> None:
        """Ring the lane's bell once."""
        await self._bus.publish(subjects.bell(pool, klass, shard))
