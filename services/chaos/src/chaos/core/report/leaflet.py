"""The page that lies beside a report which is kept: what was run, what came of it, and how to judge it again."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from chaos.core.report.chart import Picture
from chaos.core.report.data import Findings

SHOWN = (
    "sessions", "bound_at_fault", "sessions_hit", "users_with_error", "disconnects", "reattached_without_gap", "mttd_s",
    "detect_p95_s", "mttr_s", "recover_p50_s", "recover_p95_s", "recover_max_s", "error_share", "queue_gap_s", "lost", "dup",
    "fork", "stale", "zombie", "conserve", "order", "verdict",
)  # fmt: skip


class KeptHistory(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the raw history."""

    name: str
    """Of its file, compressed."""
    rows: int
    size_bytes: int
    """Compressed."""
    sha256: str
    """Of the rows themselves, not compressed."""
    is_kept: bool


def leaflet(found: Findings, drawn: Sequence[Picture], history: KeptHistory) -> str:
    """Return the page, as Markdown."""
    machine = ", ".join(f"{name} {value}" for name, value in found.machine.items())
    pressure = found.measured.pressure
    shown = (
        "not known" if pressure.p50 is None else f"P50 {pressure.p50:.2f}, max {pressure.max:.2f}"
    )
    lines = [
        f"# Chaos: {found.run}, seed {found.seed}",
        f"Verdict: **{found.verdict.verdict}**. The whole report is [report.html](report.html), one file that needs nothing",
        "else (download it); its data are [report.json](report.json).",
        "",
        f"Commit `{found.commit}`; {machine}; processor pressure (PSI some) {shown}; users thought {found.think:.2f} times",
        "longer than planned.",
        "",
        "| figure | value | to reach | |",
        "|---|---|---|---|",
        *(_row(found, name) for name in SHOWN if name in found.figures),
        "",
        *(f"- unknown: {why}" for why in found.verdict.unknowns),
        *(f"- {one.kind.upper()}: {one.session}: {one.what}" for one in found.verdict.findings),
        "",
        *_growth(found),
        *(f"![{picture.title}]({picture.name}.svg)\n" for picture in drawn),
        "## Raw history",
        *_history(found, history),
    ]
    return "\n".join(lines) + "\n"


def _growth(found: Findings) -> list[str]:
    if not found.growth:
        return []
    head = "| service | processes | memory, MiB | an hour | open files | an hour | streams on disk, MiB | an hour |"
    rows = [
        f"| {one.kind} | {one.processes} | {one.memory_mib:.0f} | {one.memory_mib_per_h:+.1f} | {one.files:.0f} | "
        f"{one.files_per_h:+.1f} | {one.disk_mib:.0f} | {one.disk_mib_per_h:+.1f} |"
        for one in found.growth
    ]
    return [
        "Growth after the first quarter, all processes of a kind:",
        "",
        head,
        "|---" * 8 + "|",
        *rows,
        "",
    ]


def _row(found: Findings, name: str) -> str:
    target = found.targets.get(name)
    value = found.figures[name]
    if target is None:
        return f"| `{name}` | {value:g} | | |"
    bound = f"{'≥' if target.at_least else '≤'} {target.reach:g}"
    return f"| `{name}` | {value:g} | {bound} | {'reached' if target.is_met(value) else '**missed**'} |"


def _history(found: Findings, history: KeptHistory) -> list[str]:
    size = f"{history.rows} rows, {history.size_bytes / 1e6:.1f} MB compressed, SHA-256 of the rows `{history.sha256}`"
    if history.is_kept:
        return [
            f"[{history.name}]({history.name}): {size}. `agent-sandbox chaos judge` on this folder judges it again.",
        ]
    return [
        f"It is left out, for its size: {size}. Load and faults of seed {found.seed} come again with",
        f"`agent-sandbox chaos run {found.run} --seed {found.seed}`; what the machine makes of them is never the same twice.",
    ]
