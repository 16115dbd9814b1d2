"""The one door to NATS. Everything that may be slow has a bound; everything that fails says whether it may have happened."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from shared import logs, subjects
from shared.bus import publish, pull, read
from shared.bus.link import Link
from shared.bus.pull import Delivery
from shared.bus.subscription import Subscription
from shared.bus.types import BusOptions, Handler, Message, PubAck, Stored, Write
from shared.messages import Credential

log = logs.get(__name__)


class Bus:
    """A connection to the cluster.

    `on_lost` and `on_restored`, where set, are called when the connection is given up and when there is one again: plain
    functions, run in the reader; they must be short.
    """

    def __init__(self, link: Link) -> None:
        """Use `Bus.connect`."""
        self.on_lost: Callable[[], None] | None = None
        self.on_restored: Callable[[], None] | None = None
        self._link = link
        self._subscriptions: set[Subscription] = set()
        link.changed = self._tell

    @classmethod
    async def connect(cls, options: BusOptions, *, deadline_s: float = 5.0) -> Bus:
        """Connect to any of the servers.

        Raises:
            Unavailable: none took the connection within the deadline.
            Forbidden: they refuse the credential.
            Rejected: a file of `options.tls` is of no use.
        """
        link = Link(options)
        await link.open(deadline_s)
        return cls(link)

    async def close(self, *, deadline_s: float = 1.0) -> None:
        """Send what is queued and close; never takes longer than `deadline_s` (and 0.5 s for the socket)."""
        for subscription in list(self._subscriptions):
            await subscription._stop()
        await self._link.close(deadline_s)

    async def use_credential(self, credential: Credential | None = None) -> None:
        """Go on under a newer credential (None: the newest that `BusOptions` yields); nothing is lost by it.

        Raises:
            Forbidden, Unavailable: no connection under it (yet); one that there is goes on.
        """
        await self._link.use(credential)

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self._link.client.usable

    @property
    def server(self) -> str:
        """Address (`host:port`) of the server that we are connected to; empty: none."""
        url = self._link.client.connected_url
        return "" if url is None else url.netloc

    @property
    def options(self) -> BusOptions:
        """How this connection was made."""
        return self._link.options

    @property
    def refusals(self) -> tuple[str, ...]:
        """The newest things that the server refused, in its words."""
        return tuple(self._link.refused)

    def _tell(self, up: bool) -> None:
        callback = self.on_restored if up else self.on_lost
        if callback is not None:
            try:
                callback()
            except Exception:
                log.exception("bus.callback_failed", up=up)

    def contact_age_s(self) -> float:
        """Return the seconds since we sent the newest thing that the server has answered.

        Measured from the sending, on this process' own clock: a process that was stopped for ten seconds and finds an
        answer waiting has an old contact, not a new one.
        """
        return time.monotonic() - self._link.client.contact

    async def probe(self, *, timeout_s: float) -> bool:
        """Ask the server for a sign of life; return whether it came in time."""
        return self.connected and await self._link.client.ping(timeout_s)

    @asynccontextmanager
    async def watch_contact(self, interval_s: float = 1.0) -> AsyncIterator[None]:
        """While inside, ask the server for a sign of life every `interval_s`; after two misses leave it."""
        watcher = asyncio.create_task(self._link.watch.run(interval_s), name="bus-watch")
        try:
            yield
        finally:
            watcher.cancel()
            with suppress(asyncio.CancelledError):
                await watcher

    async def publish(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: Mapping[str, str] | None = None,
        reply: str = "",
    ) -> None:
        """Send a message; nobody says that it arrived.

        Raises:
            Unavailable: not connected; nothing was sent, and nothing will be.
            LimitExceeded: larger than the servers take.
        """
        await self._link.publish(subject, data, reply=reply, headers=headers)

    async def request(
        self,
        subject: str,
        data: bytes = b"",
        *,
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> Message:
        """Send a request and return its answer.

        Raises:
            Unavailable: not connected, or nobody listens: surely not taken.
            Forbidden: the credential does not allow it.
            OutcomeUnknown: no answer in time, or the connection was lost.
        """
        return await self._link.ask(subject, data, timeout_s=timeout_s, headers=headers)

    async def subscribe(
        self, subject: str, handler: Handler, *, queue: str = "", pending_max: int = 1024
    ) -> Subscription:
        """Hear a subject; when this returns, the server has taken the subscription.

        Args:
            subject: may hold wildcards.
            handler: a plain function runs at once in the reader and must be short; a coroutine function handles
                messages one after the other. What it raises is logged.
            queue: name of a group of which one member hears each message.
            pending_max: messages that wait for a coroutine function; further ones are dropped and counted.

        Raises:
            Forbidden: the credential does not allow to hear it.
            Unavailable: not connected, or no answer.
        """
        subscription = Subscription(self._link, subject, handler, pending_max)
        await subscription.start(queue, self._subscriptions)
        return subscription

    async def publish_acked(  # noqa: PLR0913 - one call that every producer makes; a struct would hide the limits
        self,
        subject: str,
        data: bytes,
        *,
        message_id: str,
        headers: Mapping[str, str] | None = None,
        attempt_s: float = 0.5,
        deadline_s: float = 10.0,
    ) -> PubAck:
        """Publish until a stream says that it is stored; every try goes under the same id, so that no stream stores it twice.

        Args:
            subject: where to.
            data: the body.
            message_id: `Nats-Msg-Id`.
            headers: further headers.
            attempt_s: seconds that a try waits for its answer.
            deadline_s: seconds for all tries.

        Raises:
            NotFound: no stream takes new sessions of this pool (after 1.5 s); on other subjects Unavailable, in the end.
            LimitExceeded: too large, or the lane is full; surely not stored.
            Forbidden: the credential does not allow it.
            Unavailable: surely not stored within the deadline.
            OutcomeUnknown: a try without an answer may have been stored; ask again only under the same id.
        """
        own = publish.with_id(headers, message_id)
        limits = (attempt_s, deadline_s)
        return await publish.publish_until_stored(self._link, subject, data, own, limits)

    async def compare_and_set(  # noqa: PLR0913 - see publish_acked
        self,
        subject: str,
        data: bytes,
        *,
        expected_seq: int,
        message_id: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 0.5,
    ) -> int:
        """Store a message if the subject's last one has the expected sequence; return the new one's. One try.

        Args:
            subject: where to.
            data: the body.
            expected_seq: stream sequence of the subject's last message; 0: there must be none.
            message_id: `Nats-Msg-Id`, where a repeated try must be recognised.
            headers: further headers.
            timeout_s: seconds to wait for the answer.

        Raises:
            Conflict: the sequence is another; surely not stored.
            Unavailable: no leader now; surely not stored.
            OutcomeUnknown: no answer: read, and decide.
        """
        own = publish.with_id(headers, message_id)
        own[publish.EXPECTED_SEQ] = str(expected_seq)
        return (await publish.publish_once(self._link, subject, data, own, timeout_s)).seq

    async def batch(self, writes: Sequence[Write], *, timeout_s: float = 0.5) -> int:
        """Store several messages of one stream, all or none; return the sequence of the last. One try.

        Raises:
            Conflict: an expected sequence was another; nothing is stored.
            Unavailable: no leader, or too many open batches; nothing is stored.
            OutcomeUnknown: no answer: read, and decide.
        """
        return await publish.publish_batch(self._link, writes, timeout_s)

    async def read_last(
        self, stream: str, subject: str, *, timeout_s: float = 0.5
    ) -> Stored | None:
        """Return the last message on a subject (wildcards allowed), from the stream's leader; None: there is none.

        Raises:
            Unavailable: no leader, or no answer.
        """
        return await read.read_leader(self._link, stream, {"last_by_subj": subject}, timeout_s)

    async def read_next(
        self, stream: str, subject_filter: str, *, after_seq: int, timeout_s: float = 0.5
    ) -> Stored | None:
        """Return the first message after a sequence that matches, from the stream's leader; None: there is none.

        Raises:
            Unavailable: no leader, or no answer.
        """
        query = {"seq": after_seq + 1, "next_by_subj": subject_filter}
        return await read.read_leader(self._link, stream, query, timeout_s)

    async def read_result(
        self, tenant: str, session: str, task: str, *, timeout_s: float = 0.5
    ) -> bytes | None:
        """Return a task's stored result; None: none yet, as far as the replica that answers knows.

        Raises:
            Unavailable: no replica answers.
        """
        return await read.read_result(self._link, subjects.result(tenant, session, task), timeout_s)

    def scan(
        self, stream: str, subject_filter: str, *, batch: int = 256, after_seq: int = 0
    ) -> AsyncIterator[Stored]:
        """Yield all messages that match, oldest first, read in batches from any replica: perhaps a little old.

        On a stream that keeps one message per subject these are the last values; with `after_seq` those that were
        written since.

        Raises:
            Unavailable: no replica answers, several times in a row.
        """
        return read.scan(self._link, stream, subject_filter, (after_seq, batch))

    async def pull(self, stream: str, consumer: str, *, expires_s: float = 0.15) -> Delivery | None:
        """Take one message from a consumer, waiting at most `expires_s` (0: not at all); None: there was none.

        Raises:
            NotFound: there is no such consumer.
            Unavailable: not connected, no leader, or nothing came back.
        """
        return await pull.pull(self._link, stream, consumer, expires_s)

    async def js_api(
        self, suffix: str, body: dict[str, Any] | None = None, *, timeout_s: float = 2.0
    ) -> dict[str, Any]:
        """Ask the JetStream API (`$JS.API.<suffix>`) and return its answer.

        Raises:
            ServiceError: by what the API answered; OutcomeUnknown: no answer.
        """
        return await read.js_api(self._link, suffix, body, timeout_s)
