"""A zygote as the node sees it: start children, signal them, hear of their end. Never blocks the event loop."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confinement
import local_node
from local_node.adapters.zygote import protocol
from local_node.adapters.zygote.child import ZygoteChild, set_once, wait_readable
from local_node.ports import Exit, StartRefused
from shared import logs
from shared.errors import Unavailable

log = logs.get(__name__)

SOURCES = list(
    dict.fromkeys(
        str(Path(str(package.__file__)).parents[1]) for package in (local_node, confinement)
    )
)
"""Folders that hold what a zygote imports before it is told more."""
_BOOT = (
    "import sys; sys.path[:0] = sys.argv[2:]; "
    "from local_node.adapters.zygote.server import main; sys.exit(main(int(sys.argv[1])))"
)
_SEND_TIMEOUT_S = 5.0


@dataclasses.dataclass(frozen=True)
class ZygoteConfig:
    """What makes one zygote."""

    name: str
    """For logs."""
    python: str
    """Interpreter, absolute path."""
    settings: dict[str, Any]
    """What its role is configured with: role, module, path …"""
    site: bool = True
    """Load the interpreter's site module; a sandbox carries only what it needs."""
    signal_by_node: bool = False
    """The node signals children itself, at once: a zygote works in the background. Not where a tree is to be ended."""
    ready_timeout_s: float = 20.0


class Zygote:
    """The node's end of one fork server."""

    def __init__(self, config: ZygoteConfig, on_death: Callable[[str], None]) -> None:
        """Describe a zygote; `launch` starts it.

        Args:
            config: what to start.
            on_death: called once if it ends without having been asked to.
        """
        self._config = config
        self._on_death = on_death
        self._children: dict[int, ZygoteChild] = {}
        self._keys = itertools.count(1)
        self._ready: asyncio.Future[None] | None = None
        self._burying: asyncio.Task[None] | None = None
        self._sending = asyncio.Lock()
        self.facts: protocol.Request = {}
        """What the zygote said of itself when it was ready."""
        self._closing = self._was_ready = False
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    @property
    def is_gone(self) -> bool:
        """Whether it takes nothing any more."""
        return self._socket is None

    async def launch(self) -> None:
        """Start the process and wait until it is configured.

        Must run on the main thread: the kernel ends a zygote when the *thread* that started it ends.

        Raises:
            Unavailable: it could not be configured; says why.
        """
        ours, theirs = protocol.connect_pair()
        flags = ["-I"] if self._config.site else ["-I", "-S"]
        command = [self._config.python, *flags, "-c", _BOOT, str(theirs.fileno()), *SOURCES]
        with theirs:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - once per node, a fork and an exec
                command,
                pass_fds=[theirs.fileno()],
                env={"LANG": "C.UTF-8", "PATH": os.environ.get("PATH", os.defpath)},
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        ours.setblocking(False)
        self._socket = ours
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        loop.add_reader(ours, self._on_readable)
        await self.send(protocol.CONFIGURE, 0, protocol.pack(self._config.settings))
        try:
            async with asyncio.timeout(self._config.ready_timeout_s):
                await self._ready
        except TimeoutError as exc:
            await self.close()
            raise Unavailable(f"zygote {self._config.name}: not ready in time") from exc
        except BaseException:
            await self.close()
            raise

    async def start(
        self, request: protocol.Request, fds: tuple[int, ...], *, timeout_s: float
    ) -> ZygoteChild:
        """Fork a child.

        Args:
            request: what the child is told.
            fds: descriptors that it gets; the caller closes its own copies.
            timeout_s: seconds until the fork must have been reported.

        Raises:
            StartRefused: no child was made; says why.
            Unavailable: the zygote is gone or does not answer.
        """
        child = ZygoteChild(next(self._keys), self._signal, by_node=self._config.signal_by_node)
        self._children[child.key] = child
        try:
            async with asyncio.timeout(timeout_s):
                await self.send(protocol.START, child.key, protocol.pack(request), fds)
                await asyncio.shield(child.started)
        except TimeoutError as exc:
            await child.kill(signal.SIGKILL)  # taken after the start, should that still happen
            raise Unavailable(f"zygote {self._config.name}: no answer") from exc
        except Unavailable:
            self._children.pop(child.key, None)
            raise
        return child

    async def send(self, operation: int, key: int, body: bytes, fds: tuple[int, ...] = ()) -> None:
        """Send one datagram, waiting for room.

        Raises:
            Unavailable: the zygote is gone or takes nothing.
        """
        try:
            async with asyncio.timeout(_SEND_TIMEOUT_S), self._sending:
                while True:
                    if self._socket is None:
                        raise Unavailable(f"zygote {self._config.name}: gone")
                    try:
                        protocol.send(self._socket, operation, key, body, fds)
                    except BlockingIOError:
                        await self._writable(self._socket)
                    else:
                        return
        except TimeoutError as exc:
            raise Unavailable(f"zygote {self._config.name}: takes nothing") from exc
        except OSError as exc:
            raise Unavailable(f"zygote {self._config.name}: {exc}") from exc

    async def close(self, *, deadline_s: float = 5.0) -> None:
        """Let the zygote end its children and itself; kill it past the deadline."""
        self._closing = True
        self._disconnect("closed")
        if self._burying is not None:
            self._burying.cancel()
            await asyncio.wait({self._burying})
        process = self._process
        if process is None:
            return
        try:
            async with asyncio.timeout(deadline_s):
                await asyncio.to_thread(process.wait, deadline_s)
        except (TimeoutError, subprocess.TimeoutExpired):
            log.exception("zygote.close_late", zygote=self._config.name, deadline_s=deadline_s)
            process.kill()
            await asyncio.to_thread(process.wait, deadline_s)

    async def buried(self) -> None:
        """Once it has died: wait until all that it left is gone."""
        if self._burying is not None:
            await self._burying

    async def _signal(self, key: int, number: int) -> None:
        await self.send(protocol.KILL, key, protocol.pack_number(number))

    @staticmethod
    async def _writable(sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_writer(sock, set_once, ready)
        try:
            await ready
        finally:
            loop.remove_writer(sock)

    def _on_readable(self) -> None:
        """Take everything that is there."""
        while self._socket is not None:
            try:
                received = protocol.receive(self._socket)
            except BlockingIOError:
                return None
            except OSError as exc:
                return self._disconnect(str(exc))
            if received is None:
                return self._disconnect("ended")
            self._on_message(*received[:3])
        return None

    def _on_message(self, operation: int, key: int, body: bytes) -> None:
        child = self._children.get(key)
        if operation == protocol.READY:
            self.facts = protocol.unpack(body)
            self._was_ready = True
            self._settle_ready(None)
        elif operation == protocol.FAILED:
            self._settle_ready(Unavailable(f"zygote {self._config.name}: {body.decode()}"))
        elif child is None:
            log.debug("zygote.message_ignored", zygote=self._config.name, operation=operation)
        elif operation == protocol.STARTED:
            child.has_started(protocol.unpack_number(body))
        elif operation == protocol.REFUSED:
            del self._children[key]
            child.started.set_exception(StartRefused(body.decode()))
        elif operation == protocol.REPORT:
            child.error = body.decode()
        elif operation == protocol.EXITED:
            del self._children[key]
            code = os.waitstatus_to_exitcode(protocol.unpack_number(body))
            child.has_exited(
                Exit(code, None, child.error) if code >= 0 else Exit(None, -code, child.error)
            )

    def _settle_ready(self, error: Unavailable | None) -> None:
        if self._ready is None or self._ready.done():
            return
        if error is None:
            self._ready.set_result(None)
        else:
            self._ready.set_exception(error)

    def _disconnect(self, why: str) -> None:
        """Give up the socket: the zygote, its keeper or the kernel ends every child."""
        sock, self._socket = self._socket, None
        if sock is None:
            return
        asyncio.get_running_loop().remove_reader(sock)
        sock.close()
        gone = Unavailable(f"zygote {self._config.name}: {why}")
        self._settle_ready(gone)
        for child in self._children.values():
            if not child.started.done():
                child.started.set_exception(gone)
                child.started.exception()  # nobody need wait for it
        children = list(self._children.values())
        self._children.clear()
        if self._was_ready and not self._closing:
            log.error("zygote.died", zygote=self._config.name, why=why)
            for child in children:
                child.lost.set_result(None)
            self._burying = asyncio.get_running_loop().create_task(self._bury(children))
            self._on_death(self._config.name)
            return
        for child in children:
            child.has_exited(Exit(None, signal.SIGKILL, f"its zygote {why}"))

    async def _bury(self, children: list[ZygoteChild]) -> None:
        """Wait until all that a dead zygote leaves is gone, and say so of each child."""
        try:
            await self._gone()
            await asyncio.gather(*(child.wait_process_gone() for child in children))
        finally:
            for child in children:
                child.has_exited(Exit(None, signal.SIGKILL, "its zygote died"))

    async def _gone(self) -> None:
        """Wait for the end of the process: where a keeper stands there, it ends only after what it keeps."""
        assert self._process is not None, "launched"
        fd = os.pidfd_open(self._process.pid)  # not reaped yet: nobody but this object waits for it
        try:
            await wait_readable(fd)
        finally:
            os.close(fd)
        self._process.wait()


def base_python() -> str:
    """Return the interpreter below this process's virtual environment: what a sandbox runs."""
    return str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())
