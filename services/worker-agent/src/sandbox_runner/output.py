"""What a task writes, on its way to the sidecar: two pipes, a credit window, and when it is complete.

Each task gets pipes of its own. Whoever still holds them after the task's end (a server that it started) writes into a drain:
it neither blocks, nor dies of a closed pipe, nor shows up in the output of the next task.
"""

import fcntl
import os
import struct
import termios
import time
from collections import deque

from sandbox_runner import protocol
from sandbox_runner.channel import Channel
from sandbox_runner.poller import Poller

BACKGROUND_GRACE_S = 0.2
DRAINS_MAX = 64


class Drains:
    """Reads and drops what background processes of ended tasks still write."""

    def __init__(self, poller: Poller) -> None:
        """Drains nothing yet."""
        self._poller = poller
        self._fds: deque[int] = deque()

    def add(self, fd: int) -> None:
        """Takes a read end over; of more than `DRAINS_MAX` the oldest is closed."""
        if len(self._fds) == DRAINS_MAX:
            self._close(self._fds[0])
        self._fds.append(fd)
        os.set_blocking(fd, False)
        self._poller.watch(fd, lambda: self._drain(fd))

    def _drain(self, fd: int) -> None:
        try:
            if os.read(fd, protocol.CHUNK_BYTES):
                return
        except BlockingIOError:
            return
        self._close(fd)

    def _close(self, fd: int) -> None:
        self._poller.forget(fd)
        self._fds.remove(fd)
        os.close(fd)


class Pump:
    """Carries the output of one task; `complete` says when its EXIT may be sent."""

    def __init__(self, poller: Poller, channel: Channel, drains: Drains) -> None:
        """Carries nothing until `attach`."""
        self._poller = poller
        self._channel = channel
        self._drains = drains
        self._kinds: dict[int, int] = {}
        self._owed_bytes: dict[int, int] = {}
        self._credit_bytes = protocol.WINDOW_BYTES
        self._settle_at_s: float | None = None

    def attach(self, stdout: int, stderr: int | None = None) -> None:
        """Takes over the read ends of the task's pipes, or the one end of its terminal."""
        kinds = ((stdout, protocol.STDOUT), (stderr, protocol.STDERR))
        for fd, kind in kinds[: 1 if stderr is None else 2]:
            assert fd is not None
            os.set_blocking(fd, False)
            self._kinds[fd] = kind
            self._poller.watch(fd, lambda fd=fd: self._readable(fd))  # type: ignore[misc]  # a default binds fd now

    def acknowledge(self, count: int) -> None:
        """Takes note that the sidecar has used `count` bytes.

        Args:
            count: Bytes; never more in total than were sent.

        Raises:
            protocol.FrameError: The sidecar acknowledges what it can't have.
        """
        self._credit_bytes += count
        if self._credit_bytes > protocol.WINDOW_BYTES:
            raise protocol.FrameError("more output was acknowledged than sent")
        for fd in self._kinds:
            self._poller.want_read(fd, True)

    def settle(self) -> None:
        """The task's own process has ended: what is in the pipes now is still its output; beyond that, a moment's grace."""
        if self._settle_at_s is None:
            self._settle_at_s = time.monotonic() + BACKGROUND_GRACE_S
            self._owed_bytes = {fd: _readable_bytes(fd) for fd in self._kinds}

    def wait_s(self) -> float | None:
        """Seconds until `complete` may change without any input; None: only input can change it."""
        if self._settle_at_s is None or not self._kinds:
            return None
        left_s = max(0.0, self._settle_at_s - time.monotonic())
        if left_s == 0.0 and any(
            self._owed_bytes[fd] and _readable_bytes(fd) for fd in self._kinds
        ):
            return None  # a slow reader: what was promised is still in the pipe (if no user process stole it)
        return left_s

    def complete(self) -> bool:
        """Whether all output was sent: both pipes closed, or only background processes hold them."""
        return not self._kinds or self.wait_s() == 0.0

    def detach(self, *, hang_up: bool = False) -> None:
        """Lets go of what is still open.

        Args:
            hang_up: Close it: whoever still holds a terminal is told that it is gone.
        """
        for fd in self._kinds:
            self._poller.forget(fd)
            if hang_up:
                os.close(fd)
            else:
                self._drains.add(fd)
        self._kinds.clear()

    def _readable(self, fd: int) -> None:
        room_bytes = self._credit_bytes - protocol.FRAME_COST_BYTES
        if room_bytes <= 0:
            for each in self._kinds:
                self._poller.want_read(each, False)
            return
        try:
            data = os.read(fd, min(protocol.CHUNK_BYTES, room_bytes))
        except BlockingIOError:
            return
        except OSError:  # EIO: nobody holds the other end of a terminal any more
            data = b""
        if not data:
            self._poller.forget(fd)
            os.close(fd)
            del self._kinds[fd]
            self._owed_bytes.pop(fd, None)
            return
        self._credit_bytes -= protocol.cost_bytes(data)
        if self._owed_bytes:
            self._owed_bytes[fd] = max(0, self._owed_bytes[fd] - len(data))
        self._channel.send(self._kinds[fd], data)


def _readable_bytes(fd: int) -> int:
    return int(struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0])
