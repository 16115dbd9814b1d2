"""How the one task that runs comes to its terminal: the sandbox opens it, or where that is not allowed the sidecar does."""

import os
from collections.abc import Callable

from sandbox_runner import protocol
from sandbox_runner.channel import Channel
from sandbox_runner.poller import Poller
from sandbox_runner.terminal import Terminal

_ENDS = 2


class Seat:
    """No terminal, one that is waited for, or one."""

    def __init__(self, poller: Poller, channel: Channel) -> None:
        """No terminal.

        Args:
            poller: The loop that calls back.
            channel: To the sidecar.
        """
        self.terminal: Terminal | None = None
        self._poller = poller
        self._channel = channel
        self._begin: Callable[[], None] | None = None
        self._came: list[int] = []

    @property
    def waiting(self) -> bool:
        """Whether the sidecar was asked and has not answered."""
        return self._begin is not None

    def open(self, begin: Callable[[], None]) -> None:
        """Opens a terminal, here or by the sidecar.

        Args:
            begin: Called when `terminal` is there, or surely will not be.

        Raises:
            OSError: There's no room for it.
        """
        try:
            ours, theirs = os.openpty()
        except OSError:
            # Landlock lets nobody open the node's terminals, and there is no file system of the sandbox's own.
            self._begin = begin
            self._channel.expect_descriptors(self._came.extend)
            self._channel.send(protocol.NEED_TERMINAL)
            return
        self._sit(ours, theirs)
        begin()

    def came(self) -> None:
        """The sidecar has answered; it may be too late.

        Raises:
            OSError: There's no room for what it has sent.
        """
        self._channel.expect_descriptors(None)
        came, self._came = self._came, []
        begin, self._begin = self._begin, None
        if begin is None or len(came) != _ENDS:
            for fd in came:
                os.close(fd)
        else:
            self._sit(*came)
        if begin is not None:
            begin()

    def give_up(self) -> None:
        """Nobody wants it any more."""
        self._begin = None

    def _sit(self, ours: int, theirs: int) -> None:
        try:
            self.terminal = Terminal(ours, theirs, self._poller, self._used)
        except OSError:
            os.close(ours)
            os.close(theirs)
            raise

    def _used(self, count: int) -> None:
        self._channel.send(protocol.INPUT_USED, protocol.pack_count(count))
