"""Whether a service lives and whether it can work, as its event loop last saw it. Read from any thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from shared import logs

log = logs.get(__name__)

TICK_S: Final = 0.25
"""The event loop looks at itself so often."""
UNSEEN_S: Final = 2.0
"""An event loop that did not look for so long stands still: nothing that it said counts as true any more."""
BLOCKED_S: Final = 10.0
"""An event loop that stands still for so long will not go on by itself: a restart helps."""
START: Final = "start"
Check = Callable[[], str]
"""Returns what is wrong, in words; empty: nothing."""


class Health:
    """Belongs to the event loop but for `live` and `ready`. With a readiness file, that says the same."""

    def __init__(self, ready_file: str | None = None) -> None:
        """Be live and not ready.

        Args:
            ready_file: path of a file that exists exactly while the service is ready; None: there is none.
        """
        self._file = Path(ready_file) if ready_file else None
        self._checks: dict[str, Check] = {START: lambda: self._held_back}
        self._remarks: dict[str, Check] = {}
        self._remarked = ""
        self._held_back = "it is starting"
        self._problems: dict[str, str] = {START: self._held_back}
        self._ticked = self._resumed = self._looked = time.monotonic()
        self._tell(ready=False)

    def require(self, name: str, check: Check) -> None:
        """Be ready only while `check` finds nothing wrong."""
        self._checks[name] = check

    def remark(self, name: str, check: Check) -> None:
        """Say what `check` finds wrong beside being ready: it should be seen to, and all work goes on meanwhile."""
        self._remarks[name] = check

    def begin(self) -> None:
        """The service has started: from now on it is ready whenever all checks are content."""
        self._held_back = ""
        self.tick()

    def leave(self) -> None:
        """The service is leaving: it is not ready any more, and stays live to its end."""
        self._held_back = "it is leaving"
        self.tick()

    def tick(self) -> float:
        """Look at everything; return how late this look came, seconds."""
        now = time.monotonic()
        late_s, self._ticked = max(0.0, now - self._ticked - TICK_S), now
        problems = {name: why for name, check in self._checks.items() if (why := check())}
        if problems.keys() != self._problems.keys():
            log.info("health.changed", ready=not problems, problems=problems)
            self._tell(ready=not problems)
        self._problems = problems
        remarks = {name: why for name, check in self._remarks.items() if (why := check())}
        self._remarked = _lines(remarks)
        return late_s

    @property
    def problems(self) -> dict[str, str]:
        """What keeps the service from being ready: check -> why."""
        return self._problems

    @property
    def checks(self) -> tuple[str, ...]:
        """Names of all checks."""
        return tuple(self._checks)

    def _tell(self, *, ready: bool) -> None:
        if self._file is None:
            return
        try:
            if ready:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                self._file.write_text("ready\n")
            else:
                self._file.unlink(missing_ok=True)
        except OSError as exc:  # a full disk, say: no reason to look at nothing any more, and to be ended for that
            log.warning("health.file_not_written", path=str(self._file), error=str(exc))

    # ------------------------------------------------------------------------------------------------ from any thread

    def look(self) -> float:
        """Return for how long the event loop has stood still while this process ran; called often by the prober.

        A process that was stopped as a whole (SIGSTOP, a suspended machine) finds its own last look as old as the event
        loop's: that is no fault of the loop, which gets its time again from here.
        """
        now = time.monotonic()
        if now - self._looked > UNSEEN_S:
            self._resumed = now
        self._looked = now
        return now - max(self._ticked, self._resumed)

    def live(self) -> str:
        """Return why only a restart helps; empty: it does not."""
        still_s = self.look()
        return f"the event loop stands still for {still_s:.1f} s" if still_s > BLOCKED_S else ""

    def ready(self) -> str:
        """Return what keeps the service from its work, a line for each check; empty: nothing."""
        still_s = self.look()
        if still_s > UNSEEN_S:
            return f"event loop: stands still for {still_s:.1f} s"
        return _lines(self._problems)

    def remarks(self) -> str:
        """Return what should be seen to although the service can do its work, a line for each; empty: nothing."""
        return self._remarked


def _lines(said: dict[str, str]) -> str:
    return "\n".join(f"{name}: {why}" for name, why in said.items())
