"""Where user processes are born: in a place from which they can signal each other, but not the runner.

As pid 1 the runner is out of their reach already. Elsewhere a Landlock signal scope does it; and since each process that enters
one gets a scope of its own, a command could then not even kill the server that an earlier one has started. So one thread of the
runner enters a scope, once, and all user processes are its children: they share it. (Code that finds out that thread's number
can still end the runner by it, and with it its own sandbox: no more than it can by using up its memory.)
"""

import _thread
import errno
from collections.abc import Callable
from typing import TypeVar

from sandbox_runner import kernel, main_thread

Born = TypeVar("Born")


class Birthplace:
    """Makes children, where they belong."""

    def __init__(self, *, scoped: bool) -> None:
        """Does nothing before the first birth: an idle sandbox has no thread.

        Args:
            scoped: Use a signal scope.
        """
        self._scoped = scoped
        self._begun = False
        self._main_state = 0
        self._asked = _thread.allocate_lock()
        self._answered = _thread.allocate_lock()
        self._asked.acquire()
        self._answered.acquire()
        self._work: Callable[[], object] | None = None
        self._failure: BaseException | None = None
        self._result: object = None

    def bear(self, work: Callable[[], Born]) -> Born:
        """Makes a child.

        Args:
            work: Forks or spawns; in a forked child it must not return.

        Returns:
            What `work` returns.

        Raises:
            OSError: What `work` raises, or there's no room for a thread.
        """
        if not self._scoped:
            return work()
        if not self._begun:
            self._main_state = main_thread.state_of_this_thread()
            try:
                _thread.start_new_thread(self._serve, ())
            except (
                RuntimeError
            ) as error:  # it does not tell the kernel's reason, which is always this one
                raise OSError(errno.EAGAIN, str(error)) from error
            self._begun = True
        self._work = work
        self._asked.release()
        # Nothing else of the runner's goes on meanwhile: no lock is held that a forked child could miss.
        self._answered.acquire()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        result, self._result = self._result, None
        return result  # type: ignore[return-value]  # work's own

    def settle(self) -> None:
        """In a forked child that goes on as Python: takes signals as any other process does."""
        if self._scoped:
            main_thread.become_main(self._main_state)

    def _serve(self) -> None:
        kernel.enter_signal_scope()
        while True:
            self._asked.acquire()
            work, self._work = self._work, None
            assert work is not None
            try:
                self._result = work()
            except BaseException as error:  # noqa: BLE001 - raised again by `bear`
                self._failure = error
            self._answered.release()
