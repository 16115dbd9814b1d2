"""The table of faults done alone, one after the other: each with its figures against its criteria."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from chaos.core.criteria import CRITERIA, Outcome
from chaos.core.report.data import Findings
from chaos.core.scenario import ALONE

SHOWN = (
    "sessions_hit", "detect_p95_s", "recover_p50_s", "recover_p95_s", "recover_max_s", "error_share", "queue_gap_s", "fences",
    "delay_max_s", "settled_s", "restock_s",
)  # fmt: skip


class FaultRow(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one fault."""

    number: str
    fault: str
    outcome: Outcome
    figures: dict[str, float] = {}
    why: str = ""
    """What failed, or why it is not known."""


def row_of(found: Findings) -> FaultRow:
    """Return the row of a run that did one fault alone."""
    fault = found.run.removeprefix(ALONE)
    why = [
        f"{name} {found.figures[name]:g}, at most {found.targets[name].reach:g}"
        for name in found.missed()
    ]
    why += [
        f"{name} was not measured"
        for name in found.targets
        if name in CRITERIA[fault].most and name not in found.figures
    ]
    why += found.verdict.unknowns
    why += [f"{one.kind}: {one.what}" for one in found.verdict.findings if one.kind == "broken"]
    return FaultRow(
        number=CRITERIA[fault].number,
        fault=fault,
        outcome=found.outcome,
        figures={name: found.figures[name] for name in SHOWN if name in found.figures},
        why="; ".join(why),
    )


def not_done(fault: str, why: str) -> FaultRow:
    """Return the row of a fault that could not be done here."""
    return FaultRow(number=CRITERIA[fault].number, fault=fault, outcome="unknown", why=why)


def to_markdown(rows: Sequence[FaultRow]) -> str:
    """Return the table as people read it."""
    heads = ("#", "fault", "outcome", *SHOWN, "why")
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in rows:
        figures = [f"{row.figures[name]:g}" if name in row.figures else "" for name in SHOWN]
        cells = [row.number, f"`{row.fault}`", row.outcome, *figures, row.why.replace("|", "/")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
