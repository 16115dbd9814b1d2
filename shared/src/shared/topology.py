"""Streams, consumers and mappings as data. `shared.bus.provision` creates or verifies what stands here.

Configurations are written in the servers' own JSON words, because nats-py's dataclasses drop fields that they do not
know. Durations are nanoseconds there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from shared import limits, packs, subjects
from shared.classes import CLASSES
from shared.ids import SHARDS
from shared.pools import PoolSpec

SECOND_NS = 1_000_000_000
DAY_S = 24 * 3600

ACK_WAIT_S = 2.0
"""A worker acks right after its claim, so this bounds how long a death between pull and claim goes unnoticed."""
IN_FLIGHT_MAX = 16_384
"""Fixed: a small `max_ack_pending` lets a few naks block a whole lane (measured)."""
DUPLICATE_WINDOW_S = 600.0
"""Within it, a publish under the same `Nats-Msg-Id` is stored once (in each stream)."""
INBOX_AGE_MAX_S = 7 * DAY_S
OUTPUT_BYTES_MAX = 128 * 1024 * 1024
OUTPUT_AGE_MAX_S = DAY_S
DEAD_LETTER_BYTES_MAX = 64 * 1024 * 1024
DEAD_LETTER_AGE_MAX_S = 30 * DAY_S
OBJECT_DUPLICATE_WINDOW_S = 120.0
"""Longer than any chunk is tried; each chunk costs memory for as long."""
HEADER_BYTES_MAX = 8 * 1024
"""Allowance for headers: the servers' `max_msg_size` counts them with the body."""
RESULT_BYTES_MAX = 1024 * 1024
"""A stored result: twice 64 KiB of output, of which JSON makes six times as much where it is control characters."""

BATCH_LIMITS = {"max_inflight_per_stream": 1000, "max_inflight_total": 4000, "timeout": "2s"}
"""Server setting `jetstream.limits.batch`: the default of 50 open batches refuses bursts (measured)."""


class StreamSpec(msgspec.Struct, frozen=True):
    """One stream: its name, what it holds, and its configuration."""

    name: str
    holds: str
    config: dict[str, Any]
    leader: int
    """Index (0..2) of the server that should lead it."""


class ConsumerSpec(msgspec.Struct, frozen=True):
    """One durable pull consumer."""

    stream: str
    name: str
    config: dict[str, Any]


class Topology(msgspec.Struct, frozen=True):
    """All that must exist before a service starts."""

    streams: tuple[StreamSpec, ...]
    consumers: tuple[ConsumerSpec, ...]


def _stream(name: str, holds: str, listens: list[str], leader: int, **settings: Any) -> StreamSpec:
    config = {
        "name": name,
        "description": holds,
        "subjects": listens,
        "retention": "limits",
        "storage": "file",
        "num_replicas": 3,
        "max_consumers": 1000,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "max_msg_size": limits.BODY_BYTES_MAX + HEADER_BYTES_MAX,
        "discard": "old",
        "duplicate_window": int(DUPLICATE_WINDOW_S * SECOND_NS),
    }
    config.update(settings)
    return StreamSpec(name, holds, config, leader)


def _state(shard: int) -> StreamSpec:
    return _stream(
        subjects.state_stream(shard),
        "truth: session records, first payloads, results",
        [f"s.{shard}.>"],
        shard,
        max_msgs_per_subject=1,
        max_msg_size=RESULT_BYTES_MAX,
        duplicate_window=int(2 * SECOND_NS),
        allow_atomic=True,
        allow_direct=True,
        republish={"src": f"s.{shard}.*.>", "dest": "{{wildcard(1)}}.>"},
    )


def _inbox(shard: int) -> StreamSpec:
    return _stream(
        subjects.inbox_stream(shard),
        "what sessions have yet to do, in order",
        [f"in.{shard}.*.*.*"],
        shard,
        max_msgs_per_subject=1,
        max_msgs=limits.INBOX_MESSAGES_MAX,
        max_bytes=limits.INBOX_BYTES_MAX,
        discard="new",
        discard_new_per_subject=True,
        max_age=INBOX_AGE_MAX_S * SECOND_NS,
        republish={
            "src": f"in.{shard}.*.*.*",
            "dest": "wake.{{wildcard(1)}}.{{wildcard(2)}}",
            "headers_only": True,
        },
    )


def _parts(name: str, holds: str, listens: str, leader: int, **settings: Any) -> StreamSpec:
    """Content in parts. What is stored under a subject stays what it is: nobody can write over another's part."""
    return _stream(
        name,
        holds,
        [listens],
        leader,
        max_msgs_per_subject=1,
        discard="new",
        discard_new_per_subject=True,
        max_msg_size=limits.OBJECT_CHUNK_BYTES_MAX + HEADER_BYTES_MAX,
        allow_direct=True,
        **settings,
    )


def _objects(shard: int, store_bytes: int) -> StreamSpec:
    return _parts(
        subjects.object_stream(shard),
        "inputs and outputs by reference, in chunks",
        f"object.{shard}.*.*.*",
        shard,
        max_bytes=store_bytes // SHARDS,
        max_age=limits.ENDED_KEPT_S * SECOND_NS,
        duplicate_window=int(OBJECT_DUPLICATE_WINDOW_S * SECOND_NS),
    )


def _packs(shard: int, store_bytes: int) -> StreamSpec:
    return _parts(
        packs.stream(shard),
        "packs of workspaces",
        f"pack.{shard}.*.*.*.*",
        shard,
        max_bytes=store_bytes // SHARDS,
        duplicate_window=int(2 * SECOND_NS),
        allow_atomic=True,
    )


def _queue(shard: int, pools: Sequence[PoolSpec], created_ms: int) -> StreamSpec:
    return _stream(
        subjects.queue_stream(shard),
        "tokens and task messages by pool and class",
        [subjects.queue(shard, "*", pool.name, klass) for pool in pools for klass in CLASSES],
        shard,
        retention="workqueue",
        max_msgs_per_subject=limits.LANE_MESSAGES_MAX,
        max_bytes=limits.QUEUE_BYTES_MAX,
        discard="new",
        discard_new_per_subject=True,
        # Ids of messages without one come from the sequence: a stream made anew must not give them again.
        first_seq=created_ms,
        republish={
            "src": f"q.{shard}.*.*.*",
            "dest": f"bell.{{{{wildcard(2)}}}}.{{{{wildcard(3)}}}}.{shard}",
            "headers_only": True,
        },
    )


def _slots(shard: int) -> StreamSpec:
    return _stream(
        subjects.slot_stream(shard),
        "reserved pod names",
        [f"slot.{shard}.*.*"],
        shard,
        max_msgs_per_subject=1,
        allow_direct=True,
        republish={
            "src": f"slot.{shard}.*.*",
            "dest": "slots.{{wildcard(1)}}.{{wildcard(2)}}",
        },
    )


def _consumers(shard: int, pools: Sequence[PoolSpec]) -> list[ConsumerSpec]:
    return [
        ConsumerSpec(
            subjects.queue_stream(shard),
            subjects.consumer(pool.name, klass),
            {
                "durable_name": subjects.consumer(pool.name, klass),
                "name": subjects.consumer(pool.name, klass),
                "filter_subject": subjects.queue(shard, "*", pool.name, klass),
                "ack_policy": "explicit",
                "deliver_policy": "all",
                "replay_policy": "instant",
                "ack_wait": int(ACK_WAIT_S * SECOND_NS),
                "max_deliver": -1,
                "max_ack_pending": IN_FLIGHT_MAX,
                "max_waiting": IN_FLIGHT_MAX,
                "num_replicas": 3,
                # What is pending and delivered, on three servers. If all three restart at once, unacked messages come
                # again, which claims make harmless; a file would cost two fsyncs on each server for each task.
                "mem_storage": True,
            },
        )
        for pool in pools
        for klass in CLASSES
    ]


def topology(
    pools: Sequence[PoolSpec],
    *,
    created_ms: int,
    object_bytes: int = limits.OBJECT_STORE_BYTES_MAX,
    pack_bytes: int = limits.PACK_STORE_BYTES_MAX,
) -> Topology:
    """Return everything that must exist for these pools.

    Args:
        pools: declared pools; each has its own lanes.
        created_ms: wall clock, milliseconds since 1970; first sequence of queue streams that do not exist yet.
        object_bytes: size of the object store, all shards together.
        pack_bytes: size of the store of packs, all shards together.
    """
    streams: list[StreamSpec] = []
    consumers: list[ConsumerSpec] = []
    for shard in range(SHARDS):
        streams += [_state(shard), _inbox(shard), _queue(shard, pools, created_ms), _slots(shard)]
        streams += [_objects(shard, object_bytes), _packs(shard, pack_bytes)]
        consumers += _consumers(shard, pools)
    streams.append(
        _stream(
            subjects.OUTPUT_STREAM,
            "output and events of tasks",
            ["out.*.*.*"],
            1,
            # Live output for whoever re-attaches, on three servers; the result keeps the end of it on disk.
            storage="memory",
            max_bytes=OUTPUT_BYTES_MAX,
            max_age=OUTPUT_AGE_MAX_S * SECOND_NS,
            max_msgs_per_subject=10_000,
            allow_direct=True,
        )
    )
    streams.append(
        _stream(
            subjects.DEAD_LETTER_STREAM,
            "messages that could not become a task",
            ["dlq.*.*"],
            2,
            max_bytes=DEAD_LETTER_BYTES_MAX,
            max_msgs_per_subject=limits.DEAD_LETTERS_MAX,
            max_age=DEAD_LETTER_AGE_MAX_S * SECOND_NS,
            allow_direct=True,
        )
    )
    return Topology(tuple(streams), tuple(consumers))
