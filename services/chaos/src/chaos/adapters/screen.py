"""Live progress: a table that is drawn anew in a terminal, lines where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rich.console import Console
from rich.live import Live
from rich.table import Table

from chaos.adapters.observer import Observer
from chaos.ports.standing import Standing

DRAW_EVERY_S = 0.5
SAY_EVERY_S = 10.0


class Screen:
    """Tells people how a run stands."""

    def __init__(
        self,
        standing: Standing,
        now: Callable[[], float],
        say: Callable[[str], None],
        *,
        is_live: bool,
    ) -> None:
        """Draw on stderr if `is_live`, else say a line every ten seconds."""
        self._standing, self._now, self._say, self._is_live = standing, now, say, is_live

    def tell(self, words: str) -> None:
        """Tell of an event."""
        if self._is_live:
            self._standing.marks.append(f"{self._now():.0f} s {words}")
        else:
            self._say(f"{self._now():.0f} s: {words}")

    async def run(self, observer: Observer) -> None:
        """Draw until cancelled."""
        if not self._is_live:
            while True:
                await asyncio.sleep(SAY_EVERY_S)
                self._count(observer)
                self._say(f"{self._now():.0f} s: {self._line()}")
        with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
            while True:
                self._count(observer)
                live.update(self._table(), refresh=True)
                await asyncio.sleep(DRAW_EVERY_S)

    def _count(self, observer: Observer) -> None:
        """Count which of the sessions that were hit last have an owner again."""
        standing = self._standing
        home = [
            session
            for session, epoch in standing.hit.items()
            if observer.versions[session].epoch > epoch
            and observer.versions[session].state != "queued"
        ]
        standing.recovered = len(home)
        standing.stalled = len(standing.hit) - len(home)

    def _line(self) -> str:
        one = self._standing
        pressure = "-" if one.pressure is None else f"{one.pressure:.2f}"
        return (
            f"{one.phase}; sessions live {one.sessions - one.stalled}, stalled {one.stalled}, recovered {one.recovered}; "
            f"turns {one.turns}, one-shots {one.one_shots}, under way {len(one.waiting)}, errors {one.errors}; "
            f"pressure {pressure}"
        )

    def _table(self) -> Table:
        one = self._standing
        pressure = "-" if one.pressure is None else f"{one.pressure:.2f}"
        table = Table(title=f"{self._now():.0f} s: {one.phase}", title_justify="left")
        for name in (
            "live",
            "stalled",
            "recovered",
            "turns",
            "one-shots",
            "under way",
            "errors",
            "pressure",
        ):
            table.add_column(name, justify="right")
        values = (
            one.sessions - one.stalled,
            one.stalled,
            one.recovered,
            one.turns,
            one.one_shots,
            len(one.waiting),
            one.errors,
        )
        table.add_row(*map(str, values), pressure)
        table.caption = "\n".join(one.marks)
        return table
