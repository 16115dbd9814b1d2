"""What the streams stored: one result for each task, of an owner whose epoch was not revoked; records that never go back."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence

from chaos.core.check.book import Book
from chaos.core.history import History
from chaos.core.rows import Stored, Version
from shared.record import ENDED


def check_streams(history: History, book: Book) -> None:
    """Check all that the state streams were seen to store."""
    versions = history.versions_of()
    for session, found in versions.items():
        _check_record(session, found, book)
    results: dict[tuple[str, str], list[Stored]] = defaultdict(list)
    for result in sorted(history.results, key=lambda one: one.at):
        book.look("results")
        results[result.session, result.task].append(result)
    for (session, task), stored in results.items():
        if len(stored) > 1:
            told = ", ".join(f"{one.status} under epoch {one.epoch} at {one.at}" for one in stored)
            book.find("dup", session, f"task {task} has {len(stored)} results: {told}")
    _check_epochs(history, versions, book)
    _check_effects(history, {key: stored[0] for key, stored in results.items()}, book)


def _check_record(session: str, versions: Sequence[Version], book: Book) -> None:
    """Nothing that a record has decided is undone by a later version."""
    owners: dict[int, str] = {}
    book.look("records", len(versions))
    for version in versions:
        if version.owner is not None:
            first = owners.setdefault(version.epoch, version.owner)
            if first != version.owner:
                what = f"{version.owner} owns epoch {version.epoch} of {first} at {version.at}"
                book.find("fork", session, what)
        if version.is_lost:
            book.find("lost", session, f"its workspace was lost, says its record at {version.at}")
    for before, after in itertools.pairwise(versions):
        where = f"{before.at} -> {after.at}"
        if after.epoch < before.epoch:
            book.find("zombie", session, f"epoch {before.epoch} -> {after.epoch}, {where}")
        if before.state in ENDED:
            book.find("zombie", session, f"{before.state} -> {after.state}: it had ended, {where}")
        if after.position < before.position or after.tasks_done < before.tasks_done:
            what = f"position {before.position} -> {after.position}, tasks {before.tasks_done} -> {after.tasks_done}"
            book.find("order", session, f"{what}, {where}")


def _check_epochs(history: History, versions: dict[str, list[Version]], book: Book) -> None:
    """A result of an owner is stored under the newest epoch that its session has at that place of the stream."""
    by_session: dict[str, list[Stored]] = defaultdict(list)
    for result in history.results:
        if result.worker and result.epoch:
            by_session[result.session].append(result)
    for session, results in by_session.items():
        found, next_version, newest = versions.get(session, []), 0, 0
        for result in sorted(results, key=lambda one: one.at):
            while next_version < len(found) and found[next_version].at < result.at:
                newest = max(newest, found[next_version].epoch)
                next_version += 1
            if result.epoch < newest:
                what = f"result of {result.task} under epoch {result.epoch} at {result.at}, when epoch {newest} was there"
                book.find("zombie", session, what)


def _check_effects(history: History, results: dict[tuple[str, str], Stored], book: Book) -> None:
    """A step's effect happens once in each try of its task, and never again after the task's result."""
    steps = Counter((one.session, one.task, one.step, one.epoch) for one in history.effects)
    book.look("effects", len(history.effects))
    for (session, task, step, epoch), times in steps.items():
        if times > 1:
            what = f"step {step} of {task} was done {times} times under epoch {epoch}"
            book.find("dup", session, what)
        result = results.get((session, task))
        if result is not None and result.worker and epoch > result.epoch:
            what = f"step {step} of {task} was done under epoch {epoch}, its result is of epoch {result.epoch}"
            book.find("dup", session, what)
