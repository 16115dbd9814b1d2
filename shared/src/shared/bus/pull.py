"""Taking one message from a consumer, and settling it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from shared.bus.answers import AckTokens, is_delivery, read_ack_subject
from shared.bus.link import Link
from shared.bus.types import Message
from shared.errors import NotFound, OutcomeUnknown, Rejected, Unavailable

ANSWER_WAIT_S = 0.5
"""Beyond its expiry, how long the end of a pull may take to reach us."""
_EMPTY = frozenset({"404", "408"})
_encode = msgspec.json.Encoder().encode

ACK = b"+ACK"
NAK = b"-NAK"
TERM = b"+TERM"


class Delivery:
    """One hand-over of a message by JetStream. Settling it is a hint, never a proof: a late ack is accepted, too."""

    __slots__ = ("_link", "_reply", "_tokens", "data", "headers", "subject")

    def __init__(self, link: Link, message: Message) -> None:
        """Wrap a delivered message."""
        self._link = link
        self._reply = message.reply
        self._tokens: AckTokens = read_ack_subject(message.reply)
        self.subject = message.subject
        self.data = message.data
        self.headers: Mapping[str, str] = message.headers

    @property
    def stream(self) -> str:
        """Name of the stream that it came from."""
        return self._tokens.stream

    @property
    def stream_seq(self) -> int:
        """Its sequence in the stream."""
        return self._tokens.stream_seq

    @property
    def time_ms(self) -> int:
        """When it was stored: the servers' clock, milliseconds since 1970."""
        return self._tokens.time_ms

    @property
    def deliveries(self) -> int:
        """How often it was handed over, this time included. A nak counts, too: it says nothing about deaths."""
        return self._tokens.deliveries

    async def ack(self) -> None:
        """Settle: the message leaves the queue. Raises Unavailable when not connected."""
        await self._link.publish(self._reply, ACK)

    async def nak(self, delay_s: float) -> None:
        """Give back: another worker gets it after `delay_s` seconds. Raises Unavailable when not connected."""
        await self._link.publish(self._reply, nak_body(delay_s))

    async def term(self) -> None:
        """Settle for good without having done it. Raises Unavailable when not connected."""
        await self._link.publish(self._reply, TERM)


def nak_body(delay_s: float) -> bytes:
    """Return the body that gives a message back for `delay_s` seconds."""
    return NAK + b" " + _encode({"delay": int(delay_s * 1e9)}) if delay_s > 0 else NAK


async def pull(link: Link, stream: str, consumer: str, expires_s: float) -> Delivery | None:
    """Take one message, waiting for one at most `expires_s` seconds (0: not at all); None: there was none.

    The pull is waited for until the server has ended it. A delivery that comes later all the same (the server was
    hung, the caller was cancelled) is given back at once.

    Raises:
        NotFound: there is no such consumer.
        Unavailable: the consumer has no leader now, or nothing came back.
    """

    subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
    waiting = {"expires": int(expires_s * 1e9)} if expires_s > 0 else {"no_wait": True}
    body = _encode({"batch": 1, **waiting})
    try:
        answer = await link.ask_once(
            subject,
            body,
            timeout_s=expires_s + ANSWER_WAIT_S,
            late=lambda message: give_back(link, message),
        )
    except OutcomeUnknown as exc:
        raise Unavailable(f"pull from {stream} {consumer}: {exc}") from exc
    if is_delivery(answer.reply):
        return Delivery(link, answer)
    status = answer.headers.get("Status", "")
    text = answer.headers.get("Description", "").partition("\n")[0]
    what = f"pull from {stream} {consumer}: {status} {text}"
    if status in _EMPTY:
        return None
    if status == "400":
        raise Rejected(what)
    if status == "409" and "deleted" in text.lower():
        raise NotFound(what)
    raise Unavailable(what)


def give_back(link: Link, message: Message) -> None:
    """Give back a delivery that nobody waits for any more, so that it need not wait for its ack to run out."""
    if is_delivery(message.reply) and link.client.usable:
        link.client.send(message.reply, NAK)
