"""The terminal of whoever uses the command line: raw while a program elsewhere has it, and as it was afterwards, always."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from shared import limits

KEYS_BYTES_MAX = 1024 * 1024
"""Typed ahead; beyond it the emulator waits."""
READ_BYTES = 64 * 1024
GUARD_END_S = 5.0
_GUARD = """
import ast, sys, termios
if not sys.stdin.buffer.read():
    termios.tcsetattr(1, termios.TCSANOW, ast.literal_eval(sys.argv[1]))
"""
"""Waits until its pipe is closed. Without a word before, whoever held it was killed."""


@contextmanager
def raw(fd: int) -> Iterator[None]:
    """Hand every key on as it is; afterwards the terminal is as it was, also if this process is killed."""
    before = termios.tcgetattr(fd)
    # In a session of its own: no ^C reaches it, and a terminal that is not its own it may always set.
    guard = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _GUARD, repr(before)],
        stdin=subprocess.PIPE,
        stdout=fd,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        tty.setraw(fd, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
        with suppress(BrokenPipeError, subprocess.TimeoutExpired):
            guard.communicate(b"restored", timeout=GUARD_END_S)


def size(fd: int) -> tuple[int, int]:
    """Return rows and columns of a terminal, as far as one elsewhere can have them."""
    cols, rows = os.get_terminal_size(fd)
    return _side(rows, 24), _side(cols, 80)


def _side(given: int, otherwise: int) -> int:
    return min(given, limits.TERMINAL_SIDE_MAX) or otherwise


class Keys:
    """What is typed, read ahead, so that the key which detaches is noticed while a program reads nothing."""

    def __init__(self, fd: int, leave: int | None) -> None:
        """Read from `fd`; the byte `leave` means: go away."""
        self._fd = fd
        self._leave = leave
        self._typed = bytearray()
        self._ended = False
        self._more = asyncio.Event()
        self.left = asyncio.Event()
        """Set when the key was pressed, or the terminal is gone."""
        self._listen(True)

    async def take(self) -> bytes:
        """Return what was typed since; nothing once there will be no more."""
        while not self._typed and not self._ended:
            self._more.clear()
            await self._more.wait()
        taken = bytes(self._typed)
        self._typed.clear()
        self._listen(not self._ended)
        return taken

    def close(self) -> None:
        """Read no more."""
        self._listen(False)

    def _listen(self, wanted: bool) -> None:
        loop = asyncio.get_running_loop()
        if wanted:
            loop.add_reader(self._fd, self._read)
        else:
            loop.remove_reader(self._fd)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, READ_BYTES)
        except OSError:  # the terminal is gone
            data = b""
        at = -1 if self._leave is None else data.find(self._leave)
        if not data or at >= 0:
            data, self._ended = data[: max(at, 0)], True
            self.left.set()
        self._typed += data
        self._more.set()
        if self._ended or len(self._typed) > KEYS_BYTES_MAX:
            self._listen(False)


@contextmanager
def heard_sizes() -> Iterator[asyncio.Event]:
    """Yield an event that is set whenever the window gets another size."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGWINCH, event.set)
    try:
        yield event
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
