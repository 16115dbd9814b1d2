"""The verdict over a run: true, false, or unknown, which is no pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from chaos.core.check.book import ZERO, Book, Finding, Kind
from chaos.core.check.conserve import check_conserve
from chaos.core.check.fences import check_fences
from chaos.core.check.journals import check_session
from chaos.core.check.streams import check_streams
from chaos.core.history import Call, History

FALSE_PER_NODE_HOUR_MAX = 0.1


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the checkers say."""

    verdict: Literal["true", "unknown", "false"]
    counts: dict[Kind, int]
    looked_at: dict[str, int]
    findings: tuple[Finding, ...] = ()
    unknowns: tuple[str, ...] = ()
    """Why it can't be said that all is well."""
    false_per_node_hour: float = 0.0


def judge(history: History, *, is_quiet: bool = False) -> Verdict:
    """Run all checkers.

    Args:
        history: of the run.
        is_quiet: the run had no faults, and false fences count.
    """
    book = Book()
    unknowns = _what_is_unknown(history)
    sessions = {
        session: calls
        for session, calls in history.by_session().items()
        if any(call.invoke.f == "append" for call in calls)
    }
    unread = 0
    for session, calls in sessions.items():
        final = _final(calls)
        if final is None or final.seen is None:
            unread += 1
            continue
        turns = [call for call in calls if call.invoke.f == "append"]
        check_session(session, turns, final.seen, book)
    if unread:
        unknowns.append(f"{unread} of {len(sessions)} journals were not read at the end")
    if not book.looked_at["appends"]:
        unknowns.append("no turn was looked at")
    check_streams(history, book)
    if under_way := check_conserve(history, book):
        unknowns.append(f"{under_way} accepted tasks were still under way when the run was over")
    check_fences(history, book)
    for row in history.nemesis:
        if row.type == "failed":
            book.find("broken", row.fault, row.detail)
    counts: dict[Kind, int] = {kind: book.counts[kind] for kind in (*ZERO, "false")}
    rate = _per_node_hour(history, counts["false"])
    is_false = any(counts[kind] for kind in ZERO) or (is_quiet and rate > FALSE_PER_NODE_HOUR_MAX)
    return Verdict(
        verdict="false" if is_false else "unknown" if unknowns else "true",
        counts=counts,
        looked_at=dict(book.looked_at),
        findings=tuple(book.findings),
        unknowns=tuple(unknowns),
        false_per_node_hour=rate,
    )


def _what_is_unknown(history: History) -> list[str]:
    """Return what makes the history less than whole."""
    found = []
    if history.header is None:
        found.append("the history has no header")
    if history.is_torn:
        found.append("the history ends in the middle of a row: the run crashed")
    if history.footer is None:
        found.append("the run did not come to its end")
    elif history.footer.is_aborted:
        found.append("the run was aborted")
    elif history.footer.unseen:
        found.append(f"nobody saw what was stored at {history.footer.unseen} places")
    skipped = [row.fault for row in history.nemesis if row.type == "skip"]
    if skipped:
        found.append(f"faults without a victim: {', '.join(skipped)}")
    found += [
        f"{row.fault} can't be shown to have bitten: {row.detail}"
        for row in history.nemesis
        if row.type == "missed"
    ]
    return found


def _final(calls: Sequence[Call]) -> Call | None:
    reads = [call for call in calls if call.invoke.f == "read" and call.is_ok]
    return reads[-1] if reads else None


def _per_node_hour(history: History, fences: int) -> float:
    nodes = int((history.header.settings if history.header else {}).get("nodes", 1))
    hours = max(history.end_s, 1.0) / 3600 * nodes
    return fences / hours
