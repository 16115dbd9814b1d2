"""Publishing into streams: until it is surely stored, or one try under a condition."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Mapping, Sequence

from shared import headers as names
from shared.bus.answers import read_ack
from shared.bus.gate import Gate
from shared.bus.link import Link
from shared.bus.question import NobodyListens
from shared.bus.types import Message, PubAck, Write
from shared.errors import LimitExceeded, NotFound, OutcomeUnknown, ServiceError, Unavailable

EXPECTED_SEQ = "Nats-Expected-Last-Subject-Sequence"
BATCH_ID = "Nats-Batch-Id"
BATCH_SEQUENCE = "Nats-Batch-Sequence"
BATCH_COMMIT = "Nats-Batch-Commit"
BATCH_MESSAGES_MAX = 1000
"""The servers' own bound."""

RETRY_WAIT_MIN_S = 0.05
RETRY_WAIT_MAX_S = 0.25
NOBODY_TRIES_PER_S = 8
"""So many tries must all find no stream before we believe that there is none: one shard that elects its leader looks the
same, but a new session's subject meets another shard in two of three tries. A subject that leads to one stream alone
proves nothing: an election takes up to nine seconds."""
SPREAD = "task."
"""Subjects that the account's mapping spreads over the shards begin so. Two tries of one publish may be stored by two of
them, each of which knows its own ids only: that the task runs once all the same is its record's doing."""
ELECTIONS_S = 12.0
"""After the connection was lost, all shards may be electing for so long: that nobody listens then says nothing."""


async def publish_until_stored(
    link: Link, subject: str, data: bytes, headers: dict[str, str], limits: tuple[float, float]
) -> PubAck:
    """Publish under one message id, again and again, until a stream says that it is stored.

    One span, where there is a tracer, is around all tries.

    Args:
        link: the connection.
        subject: where to.
        data: the body.
        headers: hold the message id; a tracer adds to them.
        limits: seconds for one try, and for all.

    Raises:
        Rejected: surely not stored, and it never will be (too large, lane full, forbidden, no such pool).
        Unavailable: surely not stored within the deadline.
        OutcomeUnknown: not stored as far as we know; a try without an answer may have been.
    """
    tracer = link.options.tracer
    if tracer is None:
        return await _try_until_stored(link, subject, data, headers, limits)
    with tracer.publishing(subject, headers, len(data)):
        return await _try_until_stored(link, subject, data, headers, limits)


async def _try_until_stored(
    link: Link, subject: str, data: bytes, headers: Mapping[str, str], limits: tuple[float, float]
) -> PubAck:
    """See `publish_until_stored`."""
    attempt_s, deadline_s = limits
    nobody_s = link.options.nobody_s
    began = time.monotonic()
    end = began + deadline_s
    unanswered: ServiceError | None = None
    nobody = 0
    refusal: ServiceError
    turn: Gate | None = None
    try:
        while True:
            left_s = end - time.monotonic()
            try:
                if not link.up.is_set():
                    await link.wait_up(max(left_s, 0.0))
                if turn is None and (gate := link.gates.find(subject)) is not None:
                    turn = gate if await gate.wait_turn(left_s) else None
                    left_s = end - time.monotonic()
                wait_s = max(min(attempt_s, left_s), 0.01)
                answer = await link.ask(subject, data, timeout_s=wait_s, headers=headers)
                ack = read_ack(answer.data, subject)
            except NobodyListens as exc:
                refusal = exc
                nobody += 1
                link.gates.shut(subject)
                often = nobody >= nobody_s * NOBODY_TRIES_PER_S
                long = often and time.monotonic() - began > nobody_s
                if long and unanswered is None and _may_not_exist(link, subject):
                    raise NotFound(f"no stream takes {subject}") from exc
            except OutcomeUnknown as exc:
                refusal = unanswered = exc
                link.gates.shut(subject)
            except Unavailable as exc:
                refusal = exc
            except LimitExceeded as exc:
                link.gates.open(subject)
                # A try that was not answered may have gone to another shard, and be stored there.
                if unanswered is None:
                    raise
                refusal = exc
            else:
                link.gates.open(subject)
                return ack
            wait_s = random.uniform(RETRY_WAIT_MIN_S, RETRY_WAIT_MAX_S)
            if time.monotonic() + wait_s >= end:
                if unanswered is not None:
                    raise OutcomeUnknown(
                        f"{subject}: no answer within {deadline_s:.1f} s: {unanswered}"
                    ) from unanswered
                raise refusal
            await asyncio.sleep(wait_s)
    finally:
        if turn is not None:
            turn.leave()


def _may_not_exist(link: Link, subject: str) -> bool:
    """Return whether it may be for good that nobody listens: pools come and go, all other streams are always there."""
    settled = link.lost_at is None or time.monotonic() - link.lost_at > ELECTIONS_S
    return settled and subject.startswith(SPREAD)


async def publish_once(
    link: Link, subject: str, data: bytes, headers: Mapping[str, str], timeout_s: float
) -> PubAck:
    """Publish in one try.

    Raises:
        Conflict: the condition in the headers does not hold.
        ServiceError: others as `publish_until_stored`.
    """
    answer = await link.ask(subject, data, timeout_s=timeout_s, headers=headers)
    return read_ack(answer.data, subject)


async def publish_batch(link: Link, writes: Sequence[Write], timeout_s: float) -> int:
    """Store all or none, in one stream; return the sequence of the last.

    All are sent in one go; only the commit's answer is awaited, because each open batch takes one of the servers'
    few places.

    Raises:
        Conflict: a sequence was not as expected; nothing was stored.
        ServiceError: others as `publish_once`.
    """
    if not 1 <= len(writes) <= BATCH_MESSAGES_MAX:
        raise LimitExceeded(
            f"an atomic batch holds 1 to {BATCH_MESSAGES_MAX} messages, not {len(writes)}"
        )
    batch_id = secrets.token_hex(12)
    last = writes[-1]
    headers = _batch_headers(last, batch_id, len(writes))
    headers[BATCH_COMMIT] = "1"
    refusals: list[bytes] = []

    def note(message: Message) -> bool:
        if message.data:  # what is taken is answered by an empty message
            refusals.append(message.data)
        return False

    with link.overhear(last.subject, note) as reply:
        for number, write in enumerate(writes[:-1], start=1):
            link.client.send(
                write.subject, write.data, reply, _batch_headers(write, batch_id, number)
            )
        answer = await link.ask(last.subject, last.data, timeout_s=timeout_s, headers=headers)
    what = f"batch up to {last.subject}"
    try:
        return read_ack(answer.data, what).seq
    except Unavailable:
        # "Incomplete" says the commit; the refusal of an earlier message says why.
        for refusal in refusals:
            read_ack(refusal, what)
        raise


def _batch_headers(write: Write, batch_id: str, number: int) -> dict[str, str]:
    headers = dict(write.headers or {})
    headers[BATCH_ID] = batch_id
    headers[BATCH_SEQUENCE] = str(number)
    if write.expected_seq is not None:
        headers[EXPECTED_SEQ] = str(write.expected_seq)
    return headers


def with_id(headers: Mapping[str, str] | None, message_id: str | None) -> dict[str, str]:
    """Return a copy of the headers with the message id in it."""
    own = dict(headers or {})
    if message_id is not None:
        own[names.MESSAGE_ID] = message_id
    return own
