"""User code that stands still: because the sidecar says so, or because nobody has said for too long that it may go on.

Where several nodes mount one volume, a sandbox that lost touch must not write there while another goes on with the files. So
its code runs on a lease: until a moment on the node's own clock, which the sidecar moves on with each proof that the session is
still its own. The sidecar may hang, or be gone; this process looks at the clock itself.
"""

import signal
import time

from sandbox_runner import processes

_STOP_S = 0.5
_NS = 1_000_000_000


class Standstill:
    """Stops all user processes while one of the two reasons holds."""

    def __init__(self, *, bounded: bool, leased: bool) -> None:
        """Nothing runs yet.

        Args:
            bounded: As `processes.signal_everyone` takes it.
            leased: Nothing may run before the first lease, and after the end of the last one.
        """
        self._bounded = bounded
        self._until_ns: int | None = 0 if leased else None
        self.frozen = False
        """The sidecar wants it."""
        self.lapsed = leased
        """There is a lease, and it is over."""

    def freeze(self) -> None:
        """Stops everything that runs, and returns when it stands still."""
        self.frozen = True
        self._stop()

    def thaw(self) -> None:
        """Lets everything go on, unless the lease is over."""
        self.frozen = False
        if not self.lapsed:
            self._go_on()

    def renew(self, until_ns: int) -> None:
        """Lets user code run until a moment by `CLOCK_BOOTTIME`, nanoseconds; an earlier one than before means nothing.

        Raises:
            ValueError: Nobody needs a lease here.
        """
        if self._until_ns is None:
            raise ValueError("a lease where none is needed")
        self._until_ns = max(self._until_ns, until_ns)
        if self.lapsed and self._left_ns() > 0:
            self.lapsed = False
            if not self.frozen:
                self._go_on()

    def look(self) -> None:
        """Stops everything if the lease has run out."""
        if self._until_ns is not None and not self.lapsed and self._left_ns() <= 0:
            self.lapsed = True
            self._stop()

    def wait_s(self, wanted_s: float | None) -> float | None:
        """Seconds until the next look is due.

        Args:
            wanted_s: Until something else is; None: nothing is.
        """
        if self._until_ns is None:
            return wanted_s
        if self.lapsed:
            return None  # only a word of the sidecar's changes that
        left_s = max(self._left_ns(), 0) / _NS
        return left_s if wanted_s is None else min(wanted_s, left_s)

    def _left_ns(self) -> int:
        # The clock that goes on while a machine sleeps, and that the sidecar reads, too: one kernel has both containers.
        return (self._until_ns or 0) - time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def _stop(self) -> None:
        processes.signal_everyone(signal.SIGSTOP, bounded=self._bounded)
        processes.wait_stopped(_STOP_S)

    def _go_on(self) -> None:
        processes.signal_everyone(signal.SIGCONT, bounded=self._bounded)
