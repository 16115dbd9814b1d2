"""Identifiers: what is allowed in them, how they are made, and which state shard is a session's home.

Every id becomes one token of a NATS subject, hence the narrow alphabet.
"""

from __future__ import annotations

import re
import string
from typing import NewType

from shared.errors import InvalidMessage

TaskId = NewType("TaskId", str)

SHARDS = 3
"""State, inbox and queue shards; one leader on each of three servers."""

ID_LENGTH_MAX = 64
"""Characters of a task or session id. A UUID has 36, a ULID 26. Above: the task is `rejected` (`invalid`)."""
TOKEN_LENGTH_MAX = 512
"""Characters of a subject's token that should be an id and is none, up to which its task still gets a result. Above, and
of `*` and what is no text: there is only the dead letter."""
NAME_LENGTH_MAX = 32
"""Characters of a tenant's, pool's or node's name. Above: the publish is refused."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{7,63}")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")


def home(session: str) -> int:
    """Return the state shard (0..2) of a session.

    FNV-1a32 modulo 3: the function that the servers' `partition` mapping applies to the same token, so that a
    bare client's message and our own arithmetic name the same shard.
    """
    value = 2166136261
    for byte in session.encode():
        value = ((value ^ byte) * 16777619) & 0xFFFFFFFF
    return value % SHARDS


def can_be_found(text: str) -> bool:
    """Return whether something is found again by a subject's token that should be an id.

    Not by one that is too long for a subject of ours, by a wildcard, or by bytes that are no text: servers take all of
    these from publishers.
    """
    return len(text) <= TOKEN_LENGTH_MAX and text != "*" and "\ufffd" not in text


def is_unique(text: str) -> bool:
    """Return whether `text` is a UUID or ULID, which nobody else makes."""
    return _UUID.fullmatch(text) is not None or _ULID.fullmatch(text) is not None


def parse_task_id(text: str) -> TaskId:
    """Return `text` as a task id.

    Raises:
        InvalidMessage: not 8 to 64 characters of A-Z a-z 0-9 _ -, starting with a letter or digit.
    """
    if not _ID.fullmatch(text):
        raise InvalidMessage(
            f"task or session id: 8 to {ID_LENGTH_MAX} characters of A-Z a-z 0-9 _ - expected, got {text[:80]!r}"
        )
    return TaskId(text)


def parse_name(text: str, field: str) -> str:
    """Return `text` as the name of a tenant, pool or node.

    Raises:
        InvalidMessage: not 1 to 32 characters of a-z 0-9 -, or a dash at an end; names `field`.
    """
    if not _NAME.fullmatch(text):
        raise InvalidMessage(
            f"{field}: 1 to {NAME_LENGTH_MAX} characters of a-z 0-9 - expected (no dash at an end), got {text[:80]!r}"
        )
    return text


def task_id_of_delivery(shard: int, stream_seq: int) -> TaskId:
    """Return the id of a task that was published without one.

    The last letter is the first that makes the queue shard the session's home as well, so that every redelivery
    yields the same id without anybody having stored it.
    """
    for letter in string.ascii_lowercase:
        candidate = f"q{shard}-{stream_seq:06d}-{letter}"
        if home(candidate) == shard:
            return TaskId(candidate)
    raise AssertionError(
        f"no letter puts delivery {stream_seq} on shard {shard}"
    )  # 26 letters, 3 homes
