"""Why a session's files can't be saved or restored now, and since when, as the worker's heartbeats say it."""

from __future__ import annotations

import time
from collections.abc import Callable

from shared import logs
from shared.errors import ServiceError
from worker_agent.core.kept import late_since
from worker_agent.ports import Workspaces

log = logs.get(__name__)


class Reasons:
    """Of one worker."""

    def __init__(self, workspaces: Workspaces | None, on_change: Callable[[], None]) -> None:
        """Know none; `on_change` is called when another one is to be said."""
        self._workspaces = workspaces
        self._on_change = on_change
        self._text, self._since_ms = "", 0

    def now(self, safe_ms: int, every_s: float) -> tuple[str, int]:
        """Return why files can't be saved or restored, and since when (wall clock, milliseconds); empty and 0: they can.

        Args:
            safe_ms: while a task runs, when what its node's death would leave was taken; 0: none runs.
            every_s: seconds between two snapshots in the middle of a task.
        """
        if self._text:
            return self._text, self._since_ms
        if self._workspaces is not None and self._workspaces.waits[0]:
            return self._workspaces.waits
        return late_since(safe_ms, every_s, _now_ms()) if safe_ms else ("", 0)

    def say(self, why: ServiceError | None) -> None:
        """What was tried has failed, or has not any more (None)."""
        text = "" if why is None else str(why)
        if text == self._text:
            return
        if why is not None:
            log.warning("checkpointer.waited_for", error=f"{why.code}: {why}")
        if bool(text) != bool(self._text):
            asked_ms = 0 if self._workspaces is None else self._workspaces.waits[1]
            self._since_ms = (asked_ms or _now_ms()) if text else 0
        self._text = text
        self._on_change()


def _now_ms() -> int:
    return int(time.time() * 1000)
