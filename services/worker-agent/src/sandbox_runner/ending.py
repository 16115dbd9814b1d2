"""How a task ended, as EXIT says it."""

import signal
from typing import Any


class Exit:
    """What EXIT will say; complete once `known`."""

    def __init__(self, task: str) -> None:
        """Nothing is known yet."""
        self.task = task
        self.known = False
        self.started = False
        self.exit_code: int | None = None
        self.signal: int | None = None
        self.error: dict[str, str] | None = None
        self.interpreter: dict[str, Any] | None = None

    def fields(self) -> dict[str, Any]:
        """The frame's fields."""
        return {
            "task": self.task,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "error": self.error,
            "interpreter": self.interpreter,
        }


def signal_name(number: int) -> str:
    """Returns a signal's number, with its name where it has one."""
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
