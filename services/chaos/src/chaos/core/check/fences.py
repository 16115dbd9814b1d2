"""Which owners were fenced, and whether there was a fault."""

from __future__ import annotations

import itertools

import msgspec

from chaos.core.check.book import Book
from chaos.core.history import History

AFTER_HEAL_S = 15.0
"""A fault is felt for so long after it was healed: what comes back is fenced then at the latest."""

REVOKED = frozenset({"queued", "rescuing", "poison"})


class Fence(msgspec.Struct, frozen=True):
    """A revocation, as it was stored."""

    session: str
    epoch: int
    """The one that was revoked."""
    node: str
    time: float
    cause: str


class Window(msgspec.Struct):
    """A fault, from its injection until it is felt no more."""

    fault: str
    begin_s: float
    end_s: float
    targets: tuple[str, ...]


def fences_of(history: History) -> list[Fence]:
    """Return every revocation of an owner."""
    found = []
    for session, versions in history.versions_of().items():
        for before, after in itertools.pairwise(versions):
            was_revoked = after.epoch > before.epoch and after.state in REVOKED
            if before.state == "running" and was_revoked:
                fence = Fence(session, before.epoch, before.node or "", after.time, after.cause)
                found.append(fence)
    return found


def windows(history: History) -> list[Window]:
    """Return the faults, in order; one that was never healed lasts to the end."""
    found: list[Window] = []
    for row in history.nemesis:
        if row.type == "inject":
            found.append(Window(row.fault, row.time, float("inf"), row.targets))
        elif row.type == "heal":
            for window in found:
                if window.fault == row.fault and window.end_s == float("inf"):
                    window.end_s = row.time + AFTER_HEAL_S
    return found


def check_fences(history: History, book: Book) -> None:
    """Find the fences for which there was no fault at all at their time."""
    open_ = windows(history)
    for fence in fences_of(history):
        book.look("fences")
        if not any(window.begin_s <= fence.time <= window.end_s for window in open_):
            what = f"epoch {fence.epoch} on {fence.node} at {fence.time:.1f} s, {fence.cause or 'no cause told'}"
            book.find("false", fence.session, what)
