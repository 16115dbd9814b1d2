"""Reading streams: the newest word from a leader, and many messages from any replica."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from shared.bus.answers import is_status, read_api, read_direct, read_get
from shared.bus.link import Link
from shared.bus.publish import RETRY_WAIT_MAX_S, RETRY_WAIT_MIN_S
from shared.bus.types import Message, Stored
from shared.errors import OutcomeUnknown, ServiceError, Unavailable

SCAN_TIMEOUT_S = 2.0
SCAN_TRIES = 5
SCAN_BYTES = 512 * 1024
"""A batch ends with the message that passes this: what one answer may cost in memory."""
_encode = msgspec.json.Encoder().encode


async def read_leader(
    link: Link, stream: str, query: dict[str, Any], timeout_s: float
) -> Stored | None:
    """Return what the stream's leader finds; None: there is no such message.

    Raises:
        Unavailable: no leader, or no answer: reading changes nothing, so nothing is unknown.
    """
    what = f"read of stream {stream}"
    try:
        answer = await link.ask(
            f"$JS.API.STREAM.MSG.GET.{stream}", _encode(query), timeout_s=timeout_s
        )
    except OutcomeUnknown as exc:
        raise Unavailable(f"{what}: {exc}") from exc
    return read_get(answer.data, what)


async def read_result(link: Link, subject: str, timeout_s: float) -> bytes | None:
    """Return a stored result; None: there is none (yet), as far as the replica that answers knows.

    Raises:
        Unavailable: no replica answers.
    """
    try:
        answer = await link.ask(subject, b"", timeout_s=timeout_s)
    except OutcomeUnknown as exc:
        raise Unavailable(f"read of {subject}: {exc}") from exc
    status = is_status(answer)
    if status is None:
        return answer.data
    if status == "404":
        return None
    raise Unavailable(f"read of {subject}: status {status} {answer.headers.get('Description', '')}")


async def scan(
    link: Link, stream: str, subject_filter: str, place: tuple[int, int]
) -> AsyncIterator[Stored]:
    """Yield the messages of a stream that match, oldest first, as some replica has them.

    Args:
        link: the connection.
        stream: the stream.
        subject_filter: what to read.
        place: (sequence after which to begin, messages of one batch).

    Raises:
        Unavailable: no replica answers, several times in a row.
    """
    after, batch = place
    tries = 0
    while True:
        found: list[Stored] = []
        try:
            more = await _read_batch(link, stream, subject_filter, (after, batch), found)
            tries = 0
        except ServiceError as exc:
            if not isinstance(exc, Unavailable | OutcomeUnknown):
                raise
            tries += 1
            if tries >= SCAN_TRIES:
                raise Unavailable(f"scan of stream {stream}: {exc}") from exc
            more = True
            await asyncio.sleep(random.uniform(RETRY_WAIT_MIN_S, RETRY_WAIT_MAX_S))
        for stored in found:  # what came before a failure counts
            after = stored.seq
            yield stored
        if not more:
            return


async def _read_batch(
    link: Link, stream: str, subject_filter: str, place: tuple[int, int], found: list[Stored]
) -> bool:
    """Read one batch into `found`; return whether there is more."""
    after, batch = place
    query = {
        "seq": after + 1,
        "next_by_subj": subject_filter,
        "batch": batch,
        "max_bytes": SCAN_BYTES,
    }

    def take(message: Message) -> bool:
        if is_status(message) is not None:
            return True
        found.append(read_direct(message.subject, message.data, message.headers))
        return False

    answer = await link.ask(
        f"$JS.API.DIRECT.GET.{stream}", _encode(query), timeout_s=SCAN_TIMEOUT_S, take=take
    )
    status = is_status(answer)
    if status == "404":
        return False
    if status != "204":
        raise Unavailable(f"status {status} {answer.headers.get('Description', '')}")
    return int(answer.headers.get("Nats-Num-Pending", "0")) > 0


async def js_api(
    link: Link, suffix: str, body: dict[str, Any] | None, timeout_s: float
) -> dict[str, Any]:
    """Ask the JetStream API.

    Raises:
        ServiceError: the error that it answered.
        OutcomeUnknown: no answer.
    """
    data = b"" if body is None else _encode(body)
    answer = await link.ask(f"$JS.API.{suffix}", data, timeout_s=timeout_s)
    return read_api(answer.data, suffix)
