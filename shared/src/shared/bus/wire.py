"""The NATS library's client with its faults mended; numbers are its public issues."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import nats.errors
from nats.aio.client import PING_PROTO, PONG_PROTO, Server, Srv
from nats.aio.client import Client as LibraryClient
from nats.aio.subscription import Subscription as LibrarySubscription
from nats.protocol import command

from shared import logs
from shared.bus.owner import Owner
from shared.bus.servers import RECONNECT_WAIT_MAX_S, choose
from shared.bus.transport import Transport, publish_line
from shared.bus.types import Message
from shared.errors import Forbidden, LimitExceeded, Unavailable

log = logs.get(__name__)

READ_BYTES = 32 * 1024
Sink = Callable[[Message], None]


class Client(LibraryClient):
    """One connection that survives: never closes by itself, never sends late what was given up."""

    def __init__(self, owner: Owner, servers: int, pending_bytes_max: int) -> None:
        """Make an unconnected client.

        Args:
            owner: told of losses and refusals.
            servers: how many servers may refuse a credential before the first connect is given up.
            pending_bytes_max: unsent bytes above which `send` refuses.
        """
        super().__init__()
        self.owner = owner
        self.contact = 0.0
        """When the newest thing was *sent* that the server has answered (monotonic): it heard us then, surely."""
        self._sinks: dict[int, Sink] = {}
        self._once: dict[int, bytes] = {}
        self._ping_times: deque[float] = deque()
        self._refusals_left = servers
        self._pending_bytes_max = pending_bytes_max
        self._tries = 0
        self._was_connected = False
        self._shut = False

    @property
    def usable(self) -> bool:
        """Whether what is sent now goes out now."""
        return (
            self.is_connected
            and self._flusher_task is not None
            and not self._flusher_task.done()
            and self._reading_task is not None
            and not self._reading_task.done()
        )

    def send(
        self, subject: str, data: bytes, reply: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        """Queue a message for sending, at once and in order with all others.

        The library's `publish` keeps messages while disconnected and sends them after the reconnect, too late.

        Raises:
            Unavailable: not connected, or too much is unsent; nothing was sent.
            LimitExceeded: larger than the server takes.
            Rejected: not a subject or header.
        """
        if not self.usable:
            raise Unavailable("not connected to NATS")
        line, size = publish_line(subject, data, reply, headers)
        if size > self._max_payload:
            raise LimitExceeded(f"message of {size} bytes: the servers take {self._max_payload}")
        if self._pending_data_size + size > self._pending_bytes_max:
            raise Unavailable(f"{self._pending_data_size} bytes are waiting to be sent already")
        self._queue_line(line)

    def _queue_line(self, line: bytes) -> None:
        self._pending.append(line)
        self._pending_data_size += len(line)
        assert self._flush_queue is not None
        if self._flush_queue.empty():
            self._flush_queue.put_nowait(asyncio.get_running_loop().create_future())

    def send_once(self, subject: str, data: bytes, inbox: str, sink: Sink) -> int:
        """Send a request whose one answer comes to an inbox of its own; return the inbox' number for `abandon`.

        A delivery of JetStream carries the subject under which it was stored, so only the inbox tells whose it is.
        The inbox is gone after one message, and with the connection.

        Raises:
            ServiceError: as `send`.
        """
        self._sid += 1
        sid = self._sid

        def take(message: Message) -> None:
            del self._sinks[sid], self._once[sid]
            sink(message)

        before = len(self._pending)
        self.send(subject, data, inbox)
        self._once[sid] = command.sub_cmd(inbox, "", sid) + command.unsub_cmd(sid, 1)
        self._pending.insert(before, self._once[sid])
        self._sinks[sid] = take
        return sid

    def interest(self) -> bytes:
        """Return the lines that tell the server all that this connection hears."""
        lasting = (command.sub_cmd(s.subject, s.queue, sid) for sid, s in self._subs.items())
        return b"".join([*lasting, *self._once.values()])

    def abandon(self, sid: int, late: Sink, keep_s: float) -> None:
        """Stop waiting at an inbox. Interest stays for `keep_s`: what another server has on its way goes to `late`."""
        self._sinks[sid] = late
        asyncio.get_running_loop().call_later(keep_s, self._close_inbox, sid, late)

    def _close_inbox(self, sid: int, late: Sink) -> None:
        if self._sinks.get(sid) is late:
            del self._sinks[sid]
            self._once.pop(sid, None)
            if self.usable:
                self._queue_line(command.unsub_cmd(sid, 0))

    async def ping(self, timeout_s: float) -> bool:
        """Return whether the server answers within `timeout_s`; all sent before has then arrived there."""
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if not self.usable:
            return False
        try:
            async with asyncio.timeout(timeout_s):
                await self._send_ping(answered)
                await answered
        except (TimeoutError, OSError):
            return False
        return True

    async def add_sink(self, subject: str, queue: str, sink: Sink) -> LibrarySubscription:
        """Subscribe; messages go straight from the reader to `sink`, without a task or a queue in between."""
        self._sinks[self._sid + 1] = sink
        return await self.subscribe(subject, queue=queue)

    def _remove_sub(self, sid: int, max_msgs: int = 0) -> None:
        self._sinks.pop(sid, None)
        super()._remove_sub(sid, max_msgs)

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        """Hand a message on. Whatever a stranger puts into one, the reader goes on (#914)."""
        sink = self._sinks.get(sid)
        if sink is None:
            return
        try:
            parsed = await self._process_headers(headers) if headers else None
            sink(Message(subject.decode(), data, parsed or {}, reply.decode()))
        except Exception:
            log.exception("bus.message_dropped", subject=subject.decode(errors="replace"))

    async def _read_loop(self) -> None:
        """Read until the connection is given up. An unforeseen end leads to a reconnect, not to a deaf client (#914)."""
        await super()._read_loop()
        if self.is_connected and self._reading_task is asyncio.current_task():
            log.warning("bus.reader_ended")
            await self._process_op_err(nats.errors.UnexpectedEOF())

    async def _send_ping(self, future: asyncio.Future[Any] | None = None) -> None:
        """Queue a ping behind all that was sent before: the library's overtakes it, so its answer proves nothing."""
        self._pongs.append(future or asyncio.get_running_loop().create_future())
        self._ping_times.append(time.monotonic())
        self._queue_line(PING_PROTO)

    async def _process_ping(self) -> None:
        """Answer at once: the library wakes another task for it, twice a second in each of 300 idle workers."""
        if self._pending or self._transport is None:
            self._queue_line(PONG_PROTO)
        else:
            self._transport.write(PONG_PROTO)

    async def _process_pong(self) -> None:
        """Take an answer to a ping. A ping whose waiter gave up must not end the reader, as in the library."""
        if not self._pongs:
            return
        future = self._pongs.pop(0)
        if self._ping_times:
            self.contact = max(self.contact, self._ping_times.popleft())
        self._pongs_received += 1
        self._pings_outstanding = 0
        if not future.done():
            future.set_result(True)

    async def _process_err(self, err_msg: str) -> None:
        """Take an error from the server. The library closes for good on most, an expired JWT among them."""
        text = err_msg.strip("'")
        if "permissions violation" in text:
            self.owner.on_refused(text)
        elif "invalid subject" in text or "maximum subscriptions" in text:
            log.error("bus.server_refused", error=text)
        else:
            log.warning("bus.server_error", error=text)
            await self._process_op_err(nats.errors.Error(f"nats: {text}"))

    async def _connect_to_server(self, s: Srv) -> None:
        """Open a socket of its own for each try, and end what reads from an earlier one.

        Each round of the library's loops comes by here. They can lose a cancellation, as `asyncio.wait_for` of Python
        3.11 does when what it waits for ends at the same moment, and would go on for ever.
        """
        task = asyncio.current_task()
        if self._shut or (task is not None and task.cancelling()):
            raise asyncio.CancelledError
        s.last_attempt = time.monotonic()
        for other in (self._reading_task, self._ping_interval_task, self._flusher_task):
            if other is not None and other is not task:
                other.cancel()
        self.abort()
        self._transport = Transport()  # type: ignore[no-untyped-call]  # the library's is untyped
        await self._transport.connect(
            s.uri, buffer_size=READ_BYTES, connect_timeout=self.options["connect_timeout"]
        )

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        """Take what the server says of itself; where TLS is wanted, plain TCP is refused before we say who we are."""
        if initial_connection and "tls" in self.options and not info.get("tls_required"):
            raise nats.errors.Error("nats: TLS is wanted, the server speaks none")
        await super()._process_info(info, initial_connection)

    async def _process_connect_init(self) -> None:
        began = time.monotonic()
        try:
            await super()._process_connect_init()
        except nats.errors.Error as exc:
            if "authorization" in str(exc).lower():
                self._refusals_left -= 1
                if not self._was_connected and self._refusals_left <= 0:
                    raise Forbidden("the NATS servers refuse this credential") from exc
            raise
        if self._shut:
            self.abort()
            raise nats.errors.ConnectionClosedError
        self._ping_times.clear()
        self._was_connected = True
        self._tries = 0
        self.contact = max(self.contact, began)

    async def flush(self, timeout: float = 2.0) -> None:  # noqa: ASYNC109 - the library's signature
        """Wait for a ping's answer; the library's default of 10 s would let a reconnect hang that long."""
        await super().flush(min(timeout, 2))  # type: ignore[arg-type]  # it takes fractions

    async def _attempt_reconnect(self) -> None:
        """Give the connection up and make another, for as long as it takes."""
        self._pending.clear()
        self._pending_data_size = 0
        self.abort()
        self.owner.on_lost()
        while not self.is_closed:
            try:
                await super()._attempt_reconnect()
            except Exception:
                if self.is_connected:
                    return
                log.exception("bus.reconnect_failed")
                await asyncio.sleep(RECONNECT_WAIT_MAX_S)
            else:
                return

    def pick_server(self, servers: list[Server], _info: dict[str, Any]) -> tuple[Server, float]:
        """Choose where to reconnect, and after how long."""
        left = self._current_server.uri.netloc if self._current_server else ""
        self._tries += 1
        return choose(servers, left, self._tries)

    def abort(self) -> None:
        """Cut the socket; what was not sent is dropped."""
        if isinstance(self._transport, Transport):
            self._transport.abort()

    async def shut(self, deadline_s: float) -> None:
        """Send what is queued and close, at most `deadline_s` seconds; then cut."""
        self._shut = True
        try:
            async with asyncio.timeout(deadline_s):
                await self.close()
        except TimeoutError:
            log.warning("bus.close_cut", deadline_s=deadline_s)
        finally:
            self._sinks.clear()
            self.abort()
