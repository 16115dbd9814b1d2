"""Faults alone, one after the other, each on a cluster of its own; and the table of what came of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from chaos import app
from chaos.adapters.machine import describe_machine, find_commit
from chaos.core.report.faults import FaultRow, not_done, row_of, to_markdown
from chaos.core.scenario import Size, alone, fitted
from chaos.nemesis import FAULTS
from shared.errors import ServiceError

TABLE, DATA = "faults.md", "faults.json"

Say = Callable[[str], None]


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """What to do."""

    faults: Sequence[str]
    seed: int
    out: Path
    """A new folder: the table, and the history and report of each fault in a folder of its own."""
    size: Size = Size()
    isolation: str = "auto"


async def run_each(order: Round, say: Say) -> list[FaultRow]:
    """Do each fault alone; the table is written anew after each of them.

    Raises:
        FileExistsError: there is something in the folder already.
        OSError: it can't be written.
    """
    order.out.mkdir(parents=True, exist_ok=False)
    rows: list[FaultRow] = []
    machine = ", ".join(f"{name} {value}" for name, value in describe_machine().items())
    head = f"Seed {order.seed}, commit `{find_commit()}`; {machine}.\n\n"
    for fault in order.faults:
        say(f"{fault} ({len(rows) + 1} of {len(order.faults)})")
        rows.append(await _one(order, fault, say))
        say(f"{fault}: {rows[-1].outcome} {rows[-1].why}")
        (order.out / TABLE).write_text(head + to_markdown(rows), encoding="utf-8")
        (order.out / DATA).write_bytes(msgspec.json.format(msgspec.json.encode(rows)) + b"\n")
    return rows


async def _one(order: Round, fault: str, say: Say) -> FaultRow:
    scenario = fitted(alone(fault, FAULTS[fault].lasts_s), order.size)
    run = app.Order(
        scenario=scenario, seed=order.seed, out=order.out / fault, isolation=order.isolation
    )
    try:
        return row_of(await app.run(run, say))
    except ServiceError as exc:
        return not_done(fault, str(exc))
