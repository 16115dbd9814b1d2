"""Who is called back when which descriptor is ready; one thread, no timers but the caller's."""

import select
from collections.abc import Callable

Callback = Callable[[], None]

_READ = select.POLLIN
_WRITE = select.POLLOUT
_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL


class Poller:
    """A thin index over poll(2), which, unlike epoll, forgets a descriptor that a forked child still holds."""

    def __init__(self) -> None:
        """Watches nothing yet."""
        self._poll = select.poll()
        self._callbacks: dict[int, tuple[Callback, Callback | None]] = {}
        self._events: dict[int, int] = {}

    def watch(self, fd: int, readable: Callback, writable: Callback | None = None) -> None:
        """Calls `readable` whenever `fd` can be read or was closed by the other end."""
        self._callbacks[fd] = (readable, writable)
        self._set(fd, _READ)

    def forget(self, fd: int) -> None:
        """Stops watching; call it before the descriptor is closed."""
        if self._callbacks.pop(fd, None) is not None:
            self._set(fd, 0)

    def want_read(self, fd: int, wanted: bool) -> None:
        """Pauses or resumes reading."""
        events = self._events.get(fd, 0)
        self._set(fd, events | _READ if wanted else events & ~_READ)

    def want_write(self, fd: int, wanted: bool) -> None:
        """Says whether the caller has something left to write."""
        events = self._events.get(fd, 0)
        self._set(fd, events | _WRITE if wanted else events & ~_WRITE)

    def _set(self, fd: int, events: int) -> None:
        if events == self._events.get(fd, 0):
            return
        if events:
            self._events[fd] = events
            self._poll.register(fd, events)
        else:  # not even for its end: poll would report that for ever
            self._poll.unregister(fd)
            del self._events[fd]

    def run_once(self, timeout_s: float | None) -> None:
        """Waits for readiness, at most `timeout_s` (None: without end), and makes the calls that are due."""
        timeout_ms = None if timeout_s is None else timeout_s * 1000
        for fd, events in self._poll.poll(timeout_ms):
            # A callback may have closed another descriptor of this very round.
            for event, index in ((_READ | _GONE, 0), (_WRITE, 1)):
                callbacks = self._callbacks.get(fd)
                if events & event and callbacks is not None:
                    callback = callbacks[index]
                    if callback is not None:
                        callback()
