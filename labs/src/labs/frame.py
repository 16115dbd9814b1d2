"""What a lab's programs are made of: a side measures and ends with a line of figures, a check says what these must be.

A **side** (`wall.py`, `answer.py`) is a program: progress on stderr, one JSON object as the last line of stdout. A **check**
(`check.py`) is a list of needs; as a program it runs a side and judges what that told: exit code 0 green, 1 red.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from shared import logs
from shared.errors import ServiceError

Figures = dict[str, Any]
"""What a side tells: numbers and words, which are compared; lists, which are drawn."""
Say = Callable[[str], None]
Measure = Callable[[Say], Awaitable[Figures]]
EXIT_RED, EXIT_USAGE, EXIT_SYSTEM, EXIT_INTERRUPTED = 1, 2, 125, 130
SIDE_S = 600.0
"""Longest run of a side; what it waits for itself has shorter bounds."""
DIGITS = 3


class CannotRun(Exception):
    """A side yields no figures; the message says why."""


class Need(NamedTuple):
    """What one figure must be."""

    figure: str
    why: str
    """The promise, in words."""
    at_most: float | None = None
    at_least: float | None = None

    def holds(self, figures: Mapping[str, Any]) -> bool:
        """Return whether it is so; a figure that was not told, or is no finite number, is not."""
        value = figures.get(self.figure)
        if not isinstance(value, int | float) or not math.isfinite(value):
            return False
        above = self.at_least is None or value >= self.at_least
        return above and (self.at_most is None or value <= self.at_most)

    @property
    def bound(self) -> str:
        """The bound, as people read it."""
        low = "" if self.at_least is None else f"≥ {self.at_least:g}"
        high = "" if self.at_most is None else f"≤ {self.at_most:g}"
        return " and ".join(word for word in (low, high) if word)


def is_green(needs: Sequence[Need], figures: Mapping[str, Any]) -> bool:
    """Return whether all needs are met; no need is none."""
    return bool(needs) and all(need.holds(figures) for need in needs)


def side(measure: Measure) -> None:
    """Be a side's program: measure, tell, and leave nothing running, whatever ends it."""
    began = time.monotonic()

    def say(words: str) -> None:
        print(f"[{time.monotonic() - began:5.1f} s] {words}", file=sys.stderr, flush=True)  # noqa: T201 - for people

    logs.configure(service="lab", level="critical")
    # Clients write to servers that were killed: what this run is for is no news.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    try:
        figures = asyncio.run(_ended_by_signals(measure(say)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("ended on request")
        sys.exit(EXIT_INTERRUPTED)
    except (CannotRun, ServiceError, OSError) as exc:
        say(f"cannot run: {exc}")
        sys.exit(EXIT_SYSTEM)
    print(json.dumps(rounded(figures)), flush=True)  # noqa: T201 - the figures


async def _ended_by_signals(work: Awaitable[Figures]) -> Figures:
    """Run; SIGTERM and SIGINT end it once, so that the end itself is not disturbed."""
    me = asyncio.current_task()
    assert me is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(
            number, lambda: None if me.cancelling() else me.cancel()
        )
    return await work


def rounded(value: Any) -> Any:
    """Return figures with the digits that such measurements carry."""
    match value:
        case bool() | int() | str() | None:
            return value
        case float():
            if value == 0 or not math.isfinite(value):
                return value
            return round(value, DIGITS - 1 - min(DIGITS - 1, math.floor(math.log10(abs(value)))))
        case Mapping():
            return {name: rounded(one) for name, one in value.items()}
        case _:
            return [rounded(one) for one in value]


def run_side(program: Path, hear: Say) -> Figures:
    """Run a side's program to its end and return its figures.

    Args:
        program: its file.
        hear: told each line of its progress.

    Raises:
        CannotRun: it told none, in its own last words.
    """
    words: list[str] = []
    with subprocess.Popen(
        [sys.executable, str(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        try:
            for line in running.stderr:
                words.append(line.rstrip())
                hear(words[-1])
            told = running.stdout.read()
            code = running.wait(SIDE_S)
        except BaseException:
            running.terminate()  # it takes down what it started
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(60)
            raise
    try:
        figures = json.loads(told.splitlines()[-1]) if code == 0 else None
    except (IndexError, ValueError):
        figures = None
    if not isinstance(figures, dict):
        raise CannotRun(f"{program.name} ended with code {code}: {' | '.join(words[-3:])}")
    return figures


def checked(needs: Sequence[Need], check: str) -> None:
    """Be a check's program: run the answer beside it, or the file that is named, and say what holds."""
    folder = Path(check).parent
    program = Path(sys.argv[1]) if len(sys.argv) > 1 else folder / "answer.py"
    if not program.is_file():
        print(f"no such file: {program}", file=sys.stderr)  # noqa: T201 - for people
        sys.exit(EXIT_USAGE)
    try:
        figures = run_side(program, lambda line: print(line, file=sys.stderr, flush=True))  # noqa: T201 - for people
    except CannotRun as exc:
        print(exc, file=sys.stderr)  # noqa: T201 - for people
        sys.exit(EXIT_SYSTEM)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    for need in needs:
        mark = "green" if need.holds(figures) else "RED  "
        told = figures.get(need.figure, "not told")
        print(f"{mark} {need.why}: {need.figure} {told}, must be {need.bound}")  # noqa: T201 - the verdict
    green = is_green(needs, figures)
    print(f"{program.name}: {'green' if green else 'red'}")  # noqa: T201 - the verdict
    sys.exit(0 if green else EXIT_RED)


async def gather_bounded(work: Sequence[Coroutine[Any, Any, Any]], within_s: float) -> list[Any]:
    """Run coroutines at once; raise CannotRun where they take longer than `within_s` seconds."""
    try:
        async with asyncio.timeout(within_s):
            return list(await asyncio.gather(*work))
    except TimeoutError as exc:
        raise CannotRun(f"not done within {within_s:g} s") from exc
