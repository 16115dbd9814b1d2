"""Frames over one non-blocking descriptor: to the sidecar, and from the runner to its interpreter.

Written with plain read and write: a seccomp filter may forbid sendmsg, and a descriptor is all that the runner is given.
"""

import json
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from sandbox_runner import protocol
from sandbox_runner.poller import Poller

_READ_BYTES = 256 << 10
_DESCRIPTORS_MAX = 2
_to_json = json.JSONEncoder(separators=(",", ":")).encode


class Channel:
    """One stream of frames each way. Never blocks: what does not fit waits in a queue that its users watch."""

    def __init__(
        self,
        fd: int,
        poller: Poller,
        decoder: protocol.Decoder,
        on_frame: Callable[[int, bytes], None],
        on_closed: Callable[[str], None],
    ) -> None:
        """Takes the descriptor over.

        Args:
            fd: A connected stream; owned by the channel from now on.
            poller: The loop that calls back.
            decoder: Says which frames are accepted.
            on_frame: Called with kind and payload of each frame.
            on_closed: Called once with the reason, when the other end is gone or sent nonsense.
        """
        os.set_blocking(fd, False)
        self.fd = fd
        self.queued_bytes = 0
        self._poller = poller
        self._decoder = decoder
        self._on_frame = on_frame
        self._on_closed = on_closed
        self._queue: deque[memoryview] = deque()
        self._take: Callable[[list[int]], None] | None = None
        self.open = True
        poller.watch(fd, self.read_now, self._flush)

    def send(self, kind: int, payload: bytes = b"") -> None:
        """Queues one frame and writes as much as fits."""
        if not self.open:
            return
        frame = protocol.encode(kind, payload)
        self._queue.append(memoryview(frame))
        self.queued_bytes += len(frame)
        self._flush()

    def send_json(self, kind: int, value: dict[str, Any]) -> None:
        """Queues one control frame."""
        self.send(kind, _to_json(value).encode())

    def expect_descriptors(self, take: Callable[[list[int]], None] | None) -> None:
        """Lets descriptors come with what arrives from now on; before that, the kernel drops them.

        Args:
            take: Called with those that came; they are its own then. None: no longer.
        """
        self._take = take

    def close(self) -> None:
        """Closes the descriptor; says nothing to anybody."""
        if self.open:
            self.open = False
            self._poller.forget(self.fd)
            self._queue.clear()
            self.queued_bytes = 0
            os.close(self.fd)

    def read_now(self) -> None:
        """Takes in what has arrived."""
        if not self.open:  # its number may be another file's by now
            return
        try:
            data = os.read(self.fd, _READ_BYTES) if self._take is None else self._receive()
        except BlockingIOError:
            return
        except OSError as error:
            self._lost(f"read: {error.strerror or error}")
            return
        if not data:
            self._lost("closed by the other end")
            return
        try:
            for kind, payload in self._decoder.feed(data):
                if self.open:
                    self._on_frame(kind, payload)
        except protocol.FrameError as error:
            self._lost(str(error))

    def _receive(self) -> bytes:
        end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, self.fd)
        try:
            data, fds, _, _ = socket.recv_fds(
                end, _READ_BYTES, _DESCRIPTORS_MAX, socket.MSG_CMSG_CLOEXEC
            )
        finally:
            end.detach()
        if fds and self._take is not None:
            self._take(fds)
        return data

    def _lost(self, why: str) -> None:
        if self.open:
            self.close()
            self._on_closed(why)

    def _flush(self) -> None:
        queue = self._queue
        while queue:
            try:
                written = os.write(self.fd, queue[0])
            except BlockingIOError:
                break
            except OSError as error:
                self._lost(f"write: {error.strerror or error}")
                return
            self.queued_bytes -= written
            if written == len(queue[0]):
                queue.popleft()
            else:
                queue[0] = queue[0][written:]
        self._poller.want_write(self.fd, bool(queue))
