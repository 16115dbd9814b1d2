"""Dead letters: what could not become a task, or killed its worker again and again, kept with the reason.

A letter is the body as it came; what is known about it travels in one header, as JSON in ASCII.
"""

from __future__ import annotations

import hashlib
import json

import msgspec

from shared import headers, limits
from shared.errors import ErrorInfo, InvalidMessage
from shared.messages import Message, Reason, Status, decode

NO_POOL = "-"
"""Stands for the pool of a message whose session never had one."""
TOKEN_SHOWN_LENGTH = 128
"""Characters that a letter keeps of an id that is none."""


class DeadLetter(Message, frozen=True, kw_only=True, omit_defaults=True):
    """What is known about a dead letter. The task has its terminal result beside it."""

    tenant: str
    session: str
    task: str
    pool: str
    klass: str = ""
    """Class of the lane that it came through."""
    status: Status
    reason: Reason
    error: ErrorInfo
    """Names the field and the limit."""
    attempts: int = 1
    """Workers that tried it."""
    origin: str = ""
    """Stream and sequence that it came from, such as `Q1/1764…`; empty: no longer known."""
    message_id: str = ""
    """The publisher's own id, where it is not the task's."""
    accepted_ms: int = 0
    """The stream's clock: PubAck of the message."""
    size: int = 0
    """Bytes of the body as it came."""
    truncated: bool = False
    """Only the body's beginning is kept."""
    replay_of: str = ""
    """The task that this one was a replay of."""

    @property
    def is_first(self) -> bool:
        """Whether it would have been its session's first task."""
        return self.task == self.session


class SealedLetter(msgspec.Struct, frozen=True):
    """A dead letter as it is published."""

    message_id: str
    headers: dict[str, str]
    body: bytes


def seal(letter: DeadLetter, body: bytes) -> SealedLetter:
    """Return what to publish. The same task yields the same message id, so that a retry is stored once.

    Of poison the attempt counts too: a letter that was taken back, since the worker lived after all, can be written
    again at the next death.
    """
    kept = body[: limits.BODY_BYTES_MAX]
    full = msgspec.structs.replace(
        letter,
        session=letter.session[:TOKEN_SHOWN_LENGTH],
        task=letter.task[:TOKEN_SHOWN_LENGTH],
        message_id=letter.message_id[:TOKEN_SHOWN_LENGTH],
        size=len(body),
        truncated=len(kept) < len(body),
    )
    attempt = str(letter.attempts) if letter.status == "poison" else ""
    who = "\0".join((letter.tenant, letter.session, letter.task, attempt)).encode(
        "utf-8", "replace"
    )
    text = json.dumps(msgspec.to_builtins(full), ensure_ascii=True, separators=(",", ":"))
    return SealedLetter("dlq:" + hashlib.sha256(who).hexdigest()[:32], {headers.LETTER: text}, kept)


def unseal(fields: dict[str, str]) -> DeadLetter:
    """Read what a stored letter's headers say.

    Raises:
        InvalidMessage: it has no such header, or one that cannot be read.
    """
    text = fields.get(headers.LETTER)
    if text is None:
        raise InvalidMessage(f"dead letter without the header {headers.LETTER}")
    return decode(text.encode(), DeadLetter)
