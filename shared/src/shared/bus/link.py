"""One connection to NATS: sends, matches answers to questions, and knows how old its last contact is."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import nats.errors

from shared import identity, logs
from shared.bus import refusals
from shared.bus.credentials import Shown
from shared.bus.gate import Gates
from shared.bus.question import NobodyListens, Question, says_nobody_listens
from shared.bus.transport import tls_context
from shared.bus.types import BusOptions, Message
from shared.bus.watch import Watch
from shared.bus.wire import Client
from shared.errors import Forbidden, OutcomeUnknown, ServiceError, Unavailable
from shared.messages import Credential

log = logs.get(__name__)

SEND_BUFFER_HIGH_BYTES = 512 * 1024
"""Above it a publisher waits until the socket has taken what is queued."""
SEND_WAIT_S = 2.0
REFUSALS_KEPT = 64
CLOSE_S = OPEN_PING_S = 1.0
LATE_S = 10.0
"""How long a delivery that nobody waits for any more is still expected, to be given back."""


class Link:
    """A connection, its questions, and who wants to know when it is lost."""

    def __init__(self, options: BusOptions) -> None:
        """Describe a connection; `open` makes it."""
        self.options = options
        self.client = Client(self, len(options.servers), options.pending_bytes_max)
        self.changed: Callable[[bool], None] | None = None
        """Told when the connection is lost (False) and when there is one again (True)."""
        self.refused: deque[str] = deque(maxlen=REFUSALS_KEPT)
        """Newest refusals by the server, in its words."""
        self.up = asyncio.Event()
        self.gates = Gates()
        self.lost_at: float | None = None
        self._questions: dict[str, Question] = {}
        self._asked = 0
        self._prefix = ""
        self._shown = Shown(options.credential)
        self.watch = Watch(self.client)
        self._tls = None if options.tls is None else tls_context(options.tls)
        self._last_error = ""

    async def open(self, deadline_s: float) -> None:
        """Connect.

        Raises:
            Forbidden: the servers refuse the credential.
            Unavailable: no server took the connection within the deadline.
        """
        options = self.options
        credential = self._shown.current()
        own = identity.inbox_prefix(credential) if credential else "_INBOX"
        self._prefix = f"{options.inbox_prefix or own}.{secrets.token_hex(5)}."
        heard = False
        try:
            async with asyncio.timeout(deadline_s):
                await self._connect(with_credential=credential is not None)
                await self.client.add_sink(f"{self._prefix}*", "", self._on_answer)
                # Its answer says that the inbox works; one that is lost with its connection never comes.
                while not (heard := await self.client.ping(OPEN_PING_S)):  # noqa: ASYNC110 - it asks each time
                    await asyncio.sleep(0.05)
        except TimeoutError:
            pass
        except BaseException:
            await self.client.shut(CLOSE_S)
            raise
        if not heard:
            await self.client.shut(CLOSE_S)
            raise Unavailable(
                f"no NATS server took the connection within {deadline_s:.1f} s "
                f"({', '.join(options.servers)}): {self._last_error or 'no answer'}"
            )
        if self.refused:
            await self.client.shut(CLOSE_S)
            raise Forbidden(
                f"{options.name} may not hear its answers on {self._prefix}*: {self.refused[-1]}"
            )
        self.up.set()

    async def _connect(self, *, with_credential: bool) -> None:
        options = self.options
        await self.client.connect(
            list(options.servers),
            name=options.name,
            error_cb=self._on_error,
            reconnected_cb=self.on_restored,
            connect_timeout=options.connect_timeout_s,  # type: ignore[arg-type]  # seconds, not whole ones
            reconnect_time_wait=0.1,  # type: ignore[arg-type]  # likewise
            max_reconnect_attempts=-1,
            ping_interval=options.ping_interval_s,  # type: ignore[arg-type]  # likewise
            max_outstanding_pings=2,
            pending_size=4 * options.pending_bytes_max,  # our own bound refuses earlier
            flusher_queue_size=64,
            tls=self._tls,
            tls_hostname=options.tls.server_name if options.tls else None,
            reconnect_to_server_handler=self.client.pick_server,
            signature_cb=self._shown.sign if with_credential else None,
            user_jwt_cb=self._shown.token if with_credential else None,
        )

    async def close(self, deadline_s: float) -> None:
        """Close within a bound; open questions end as unknown."""
        self.changed = None
        await self._shown.end(deadline_s)
        self._fail_questions("closed")
        self.watch.stop()
        self.up.clear()
        await self.client.shut(deadline_s)

    async def use(self, credential: Credential | None) -> None:
        """Go on under a newer credential (None: the source's).

        Raises:
            Forbidden: the servers refuse it.
            Unavailable: no connection under it; one that is left goes on, and the next is made under it.
        """
        await self._shown.renew(self.client, credential, self.wait_up)

    async def wait_up(self, timeout_s: float) -> None:
        """Wait until there is a connection.

        Raises:
            Unavailable: none within `timeout_s`.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self.up.wait()
        except TimeoutError as exc:
            raise Unavailable(f"no connection to NATS within {timeout_s:.1f} s") from exc

    async def _on_error(self, error: Exception) -> None:
        self._last_error = f"{type(error).__name__}: {error}".removesuffix(": ")
        if not isinstance(error, OSError | TimeoutError | nats.errors.Error):
            log.warning("bus.library_error", error=self._last_error)

    def on_lost(self) -> None:
        """End all questions: their answers went to the old connection."""
        self.up.clear()
        self.lost_at = time.monotonic()
        self._fail_questions("the connection was lost")
        log.info("bus.connection_lost", name=self.options.name, error=self._last_error)
        if self.changed:
            self.changed(False)

    async def on_restored(self) -> None:
        """Let publishers go on."""
        self.up.set()
        log.info("bus.connection_restored", name=self.options.name)
        if self.changed:
            self.changed(True)

    def on_refused(self, text: str) -> None:
        """Turn a refusal into the error of the question that it belongs to."""
        self.refused.append(text)
        subject = refusals.refused_publish(text)
        log.warning("bus.refused", name=self.options.name, error=text)
        if subject is None:
            return
        for question in list(self._questions.values()):
            if refusals.concerns(subject, question.subject, question.headers):
                question.fail(
                    Forbidden(f"{self.options.name} may not publish to {question.subject}")
                )

    def _on_answer(self, message: Message) -> None:
        question = self._questions.get(message.subject[len(self._prefix) :])
        if question is None:
            return
        self.client.contact = max(self.client.contact, question.sent_at)
        question.answer(message)

    def _fail_questions(self, why: str) -> None:
        for question in list(self._questions.values()):
            question.fail(OutcomeUnknown(f"no answer on {question.subject}: {why}"))

    async def publish(
        self,
        subject: str,
        data: bytes,
        *,
        reply: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a message; wait only where much is unsent.

        Raises:
            Unavailable: not connected; nothing was sent.
            OutcomeUnknown: it waits behind much else that the server does not take.
        """
        self.client.send(subject, data, reply, headers)
        if self.client.pending_data_size > SEND_BUFFER_HIGH_BYTES and not await self.client.ping(
            SEND_WAIT_S
        ):
            raise OutcomeUnknown(
                f"the server takes nothing: {subject} is unsent for {SEND_WAIT_S} s"
            )

    async def ask(
        self,
        subject: str,
        data: bytes,
        *,
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
        take: Callable[[Message], bool] | None = None,
    ) -> Message:
        """Send a request and return its (last) answer.

        Raises:
            NobodyListens: surely not taken.
            Unavailable: not connected; not sent.
            Forbidden: the server refused it.
            OutcomeUnknown: no answer, or the connection was lost.
        """
        question = Question(subject, take, headers)
        token = self._register(question)
        try:
            self.client.send(subject, data, self._prefix + token, headers)
        except ServiceError:
            del self._questions[token]
            raise
        answer = await self._wait(token, question, timeout_s)
        if says_nobody_listens(answer):
            raise NobodyListens(f"nobody listens on {subject}")
        return answer

    @contextmanager
    def overhear(self, subject: str, take: Callable[[Message], bool]) -> Iterator[str]:
        """Yield a reply subject on which answers may come that nobody waits for; each goes to `take`."""
        token = self._register(Question(subject, take))
        try:
            yield self._prefix + token
        finally:
            self._questions.pop(token).future.cancel()

    async def ask_once(
        self, subject: str, data: bytes, *, timeout_s: float, late: Callable[[Message], None]
    ) -> Message:
        """Send a request that is answered by one message, perhaps one under another subject; return it.

        Args:
            subject: where it goes.
            data: the body.
            timeout_s: seconds to wait.
            late: takes the message if it comes although it is no longer waited for.

        Raises:
            ServiceError: as `ask`, but for NobodyListens.
        """
        question = Question(subject, None)
        token = self._register(question)
        try:
            inbox = self.client.send_once(
                subject, data, f"{self._prefix}1.{token}", question.answer
            )
        except ServiceError:
            del self._questions[token]
            raise
        try:
            answer = await self._wait(token, question, timeout_s)
        except BaseException:
            self.client.abandon(inbox, late, LATE_S)
            if (unheard := question.unheard) is not None:
                late(unheard)
            raise
        self.client.contact = max(self.client.contact, question.sent_at)
        return answer

    def _register(self, question: Question) -> str:
        self._asked += 1
        token = str(self._asked)
        self._questions[token] = question
        return token

    async def _wait(self, token: str, question: Question, timeout_s: float) -> Message:
        timer = asyncio.get_running_loop().call_later(timeout_s, question.expire)
        try:
            return await question.future
        except OutcomeUnknown:
            self.watch.doubt()
            raise
        finally:
            timer.cancel()
            del self._questions[token]
