"""Reading what JetStream answers: acknowledgements, errors, statuses, and the reply subjects of deliveries. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from shared.bus.types import Message, PubAck, Stored
from shared.errors import (
    Conflict,
    InvalidMessage,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    Rejected,
    ServiceError,
    Unavailable,
)
from shared.times import time_ms_of

WRONG_LAST_SEQUENCE = frozenset({10071, 10164})
STORE_FAILED = 10077
NO_MESSAGE = 10037
_DELETE_FAILED = 10057
_NOT_THERE = frozenset({10014, 10037, 10059})
_OVER_LIMIT = frozenset({10002, 10026, 10027, 10028, 10047, 10054, 10199})
# Too few servers for a new stream now; no leader now; an atomic batch of which a message was lost or came late; too many
# open batches.
_BUSY = frozenset({10005, 10008, 10009, 10176, 10210, 10211})
_IN_PROCESS = 10158
_ACK = "$JS.ACK."


class ApiError(msgspec.Struct, frozen=True):
    """An error as the servers write it."""

    code: int = 0
    err_code: int = 0
    description: str = ""


class _Answer(msgspec.Struct, frozen=True):
    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    error: ApiError | None = None


class _StoredMessage(msgspec.Struct, frozen=True):
    subject: str
    seq: int
    time: str
    data: bytes = b""
    hdrs: bytes = b""


class _GetAnswer(msgspec.Struct, frozen=True):
    message: _StoredMessage | None = None
    error: ApiError | None = None


_answer = msgspec.json.Decoder(_Answer)
_get_answer = msgspec.json.Decoder(_GetAnswer)
_any = msgspec.json.Decoder(dict[str, Any])


def error_of(error: ApiError, what: str) -> ServiceError:
    """Return our error for one of the servers'.

    Args:
        error: what the server said.
        what: what was asked, for the message.
    """
    text = f"{what}: {error.description} ({error.err_code})"
    code = error.err_code
    if code in WRONG_LAST_SEQUENCE:
        return Conflict(text)
    if code in _NOT_THERE or (code == _DELETE_FAILED and "no message" in error.description):
        return NotFound(text)
    if code == STORE_FAILED:
        # One code for full lanes, full streams and broken disks.
        return LimitExceeded(text) if "maximum" in error.description else Unavailable(text)
    if code in _OVER_LIMIT:
        return LimitExceeded(text)
    if code == _IN_PROCESS:
        return OutcomeUnknown(text)
    if code in _BUSY or error.code in {429, 503}:
        return Unavailable(text)
    if error.code == 404:
        return NotFound(text)
    if error.code >= 500:
        return OutcomeUnknown(text)
    return Rejected(text)


def read_ack(data: bytes, what: str) -> PubAck:
    """Return a stream's acknowledgement.

    Raises:
        ServiceError: the error that the stream answered.
    """
    try:
        answer = _answer.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as exc:
        # Somebody else listens on the subject and answered before the stream did, or instead of it.
        raise OutcomeUnknown(f"{what}: the answer is not a stream's") from exc
    if answer.error is not None:
        raise error_of(answer.error, what)
    if not answer.stream:
        raise OutcomeUnknown(f"{what}: the answer is not a stream's")
    return PubAck(answer.stream, answer.seq, answer.duplicate)


def read_get(data: bytes, what: str) -> Stored | None:
    """Return the message that a stream's leader read; None: there is none.

    Raises:
        ServiceError: the error that the leader answered.
    """
    answer = _get_answer.decode(data)
    if answer.error is not None:
        if answer.error.err_code == NO_MESSAGE:
            return None
        raise error_of(answer.error, what)
    message = answer.message
    if message is None:
        raise InvalidMessage(f"{what}: neither a message nor an error in the answer")
    return Stored(
        message.subject,
        message.seq,
        message.data,
        parse_headers(message.hdrs),
        time_ms_of(message.time),
    )


def read_api(data: bytes, what: str) -> dict[str, Any]:
    """Return the answer of the JetStream API.

    Raises:
        ServiceError: the error that it answered.
    """
    answer = _any.decode(data)
    if "error" in answer:
        raise error_of(msgspec.convert(answer["error"], ApiError), what)
    return answer


def is_status(answer: Message) -> str | None:
    """Return the status of an answer to a direct get; None: it is a message.

    A stored message can hold any header, `Status` among them; where it was stored stands only with a message.
    """
    if "Nats-Sequence" in answer.headers and "Nats-Time-Stamp" in answer.headers:
        return None
    return answer.headers.get("Status", "")


def read_direct(subject: str, data: bytes, headers: Mapping[str, str]) -> Stored:
    """Return the message of a direct get's answer: a replica puts where it was stored into headers."""
    own = {name: value for name, value in headers.items() if name not in _DIRECT_HEADERS}
    return Stored(
        headers.get("Nats-Subject", subject),
        int(headers["Nats-Sequence"]),
        data,
        own,
        time_ms_of(headers["Nats-Time-Stamp"]),
    )


_DIRECT_HEADERS = frozenset(
    {
        "Nats-Stream",
        "Nats-Subject",
        "Nats-Sequence",
        "Nats-Time-Stamp",
        "Nats-Last-Sequence",
        "Nats-Num-Pending",
    }
)


class AckTokens(msgspec.Struct, frozen=True):
    """What the reply subject of a delivery says."""

    stream: str
    consumer: str
    deliveries: int
    stream_seq: int
    time_ms: int


def is_delivery(reply: str) -> bool:
    """Return whether a message with this reply subject is a delivery of a consumer (not a status of a pull).

    The `Status` header is no proof: a client can put one into its own message.
    """
    return reply.startswith(_ACK)


def read_ack_subject(reply: str) -> AckTokens:
    """Return what the reply subject of a delivery says.

    Raises:
        InvalidMessage: it is none.
    """
    tokens = reply.split(".")
    if (
        len(tokens) == 9
    ):  # $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>
        fields = tokens[2:]
    elif len(tokens) >= 11:  # with <domain>.<account hash> before the stream
        fields = tokens[4:]
    else:
        raise InvalidMessage(f"not the reply subject of a delivery: {reply!r}")
    return AckTokens(
        fields[0], fields[1], int(fields[2]), int(fields[3]), int(fields[5]) // 1_000_000
    )


def parse_headers(block: bytes) -> dict[str, str]:
    """Return the headers of a stored message."""
    headers: dict[str, str] = {}
    for line in block.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            headers[name.decode(errors="replace").strip()] = value.decode(errors="replace").strip()
    return headers
