"""A task's terminal: the program's end is its controlling terminal, the other end is read like a pipe and typed into.

The kernel's line discipline does what a terminal does: echo, ^C and ^Z to the foreground's processes, erasing. Nothing here looks
at what is written or typed.
"""

import errno
import fcntl
import os
import signal
import struct
import termios
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from sandbox_runner import protocol
from sandbox_runner.command import DEFAULTED, Program
from sandbox_runner.poller import Poller

_IUTF8 = 0o40000
"""Erasing takes a whole character; `termios` has no name for it."""
_SIZE_MAX = 0xFFFF
_NOT_BEGUN = 127


def spawn(path: str, program: Program) -> int:
    """Starts a program in a session of its own whose controlling terminal is `program.stdin`.

    By fork, as there is no other way to take a terminal that is open already.

    Raises:
        OSError: The exec's own error; nothing of the program ran.
    """
    reading, writing = os.pipe()
    try:
        pid = os.fork() or _become(path, program, writing)
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    with os.fdopen(reading, "rb", buffering=0) as report:
        told = report.read(4)  # the exec closes the child's end, or it says why there was none
    if told:
        os.waitpid(pid, 0)
        code = int.from_bytes(told, "big")
        raise OSError(code, os.strerror(code))
    return pid


def _become(path: str, program: Program, report: int) -> NoReturn:
    """Runs in the child."""
    code = errno.EINVAL
    try:
        os.setsid()
        fcntl.ioctl(program.stdin, termios.TIOCSCTTY, 0)
        for number, fd in enumerate((program.stdin, program.stdout, program.stderr)):
            os.dup2(fd, number)
        for number in DEFAULTED:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execve(path, program.argv, program.env)
    except OSError as error:
        code = error.errno or code
    except BaseException:  # noqa: BLE001, S110 - nothing may return into the copy of the runner
        pass
    os.write(report, code.to_bytes(4, "big"))
    os._exit(_NOT_BEGUN)


class Terminal:
    """Both ends of one. `ours` is read by the task's pump, which closes it."""

    def __init__(self, ours: int, theirs: int, poller: Poller, used: Callable[[int], None]) -> None:
        """Takes a pair over.

        Args:
            ours: The end that is read and typed into.
            theirs: The program's; held until that has ended, so that its closing and opening again ends nothing.
            poller: The loop that calls back.
            used: Called with the number of bytes that the terminal has taken.

        Raises:
            OSError: It is none, or there's no room for it; both ends are the caller's still.
        """
        self.ours = ours
        self.theirs = theirs
        self._poller = poller
        self._used = used
        self._typed = bytearray()
        try:
            mode = termios.tcgetattr(theirs)
            mode[0] |= _IUTF8
            termios.tcsetattr(theirs, termios.TCSANOW, mode)
        except termios.error as error:
            raise OSError(*error.args) from error
        self._keys = os.dup(ours)
        os.set_blocking(self._keys, False)
        poller.watch(self._keys, lambda: None, self._flush)
        poller.want_read(self._keys, False)

    def resize(self, rows: int, cols: int) -> None:
        """Gives it another size; the kernel tells the foreground's processes (SIGWINCH).

        Raises:
            ValueError: That is no size.
        """
        if not (0 < rows <= _SIZE_MAX and 0 < cols <= _SIZE_MAX):
            raise ValueError(f"{rows} x {cols}")
        if self._keys >= 0:
            fcntl.ioctl(self._keys, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, data: bytes) -> None:
        """Types; what does not fit waits until the program has read.

        Raises:
            protocol.FrameError: More than the sidecar may have out.
        """
        if self._keys < 0:
            return
        self._typed += data
        if len(self._typed) > protocol.INPUT_WINDOW_BYTES:
            raise protocol.FrameError("more input than was asked for")
        self._flush()

    def signal(self, leader: int, number: int) -> None:
        """Sends a signal to the foreground's processes and to the group of the program that was started."""
        groups = {leader}
        with suppress(OSError):
            groups.add(os.tcgetpgrp(self._keys))
        for group in groups:
            if group > 1:
                _send(group, number)
                if number == signal.SIGHUP:  # whoever is stopped (^Z) must hear it
                    _send(group, signal.SIGCONT)

    def leader_ended(self, *, begun: bool) -> None:
        """The program has ended: nobody types any more, and what others of its session still write is the last of it.

        Args:
            begun: There was one; else nobody reads our end either.
        """
        if self._keys >= 0:
            if not begun:
                os.close(self.ours)
            self._poller.forget(self._keys)
            os.close(self._keys)
            os.close(self.theirs)
            self._keys = -1
            self._typed.clear()

    def _flush(self) -> None:
        written = 0
        try:
            while self._typed:
                count = os.write(self._keys, self._typed)
                del self._typed[:count]
                written += count
        except BlockingIOError:
            pass
        except OSError:  # hung up
            self._typed.clear()
        self._poller.want_write(self._keys, bool(self._typed))
        if written:
            self._used(written)


def _send(group: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
