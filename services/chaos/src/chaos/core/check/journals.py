"""What clients saw of a session's journal: one append list, of which every read must be the beginning.

Reads tell the whole list (as length and chain) and tokens are unique, so the order of versions is known, and nothing has
to be searched for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from chaos.core.check.book import Book
from chaos.core.history import Call
from chaos.core.journal import chains, elements, turn_of
from chaos.core.rows import Seen

PARTLY = frozenset({"failed", "interrupted"})
"""Results that say that a task may have been done in part."""


def check_session(session: str, calls: Sequence[Call], final: Seen, book: Book) -> None:
    """Check one session.

    Args:
        session: its id.
        calls: its turns, in the order of their invocations; the strong read is not among them.
        final: the strong read at the end.
        book: takes the findings.
    """
    _Session(session, calls, final, book).check()


class _Session:
    """One session's check."""

    def __init__(self, session: str, calls: Sequence[Call], final: Seen, book: Book) -> None:
        self._session, self._calls, self._book = session, calls, book
        self._final = final.tokens
        self._chains = chains(final.tokens)
        self._places: dict[str, int] = {}
        for place, element in enumerate(final.tokens):
            self._places.setdefault(element, place)

    def check(self) -> None:
        self._book.look("journals")
        self._check_whole()
        self._check_reads()
        self._check_real_time()

    def _check_whole(self) -> None:
        """Look what of each turn is in the final journal."""
        for element, times in Counter(self._final).items():
            if times > 1:
                self._book.find(
                    "dup", self._session, f"{element} stands {times} times in its journal"
                )
        for call in self._calls:
            self._book.look("appends")
            wanted = elements(call.invoke.token, call.invoke.steps)
            there = [element for element in wanted if element in self._places]
            if call.is_ok and len(there) < len(wanted):
                missing = [element for element in wanted if element not in self._places]
                self._book.find(
                    "lost", self._session, f"acknowledged, not in its journal: {missing}"
                )
            elif call.has_failed and there:
                self._book.find("fork", self._session, f"refused, yet in its journal: {there}")
            elif not call.is_ok and 0 < len(there) < len(wanted) and not _may_be_part(call):
                self._book.find("fork", self._session, f"half of a turn: {there} of {wanted}")
            self._check_apart(there)
        known = {call.invoke.token for call in self._calls}
        for element in self._final:
            if turn_of(element) not in known:
                self._book.find("fork", self._session, f"{element} was never appended here")

    def _check_apart(self, there: Sequence[str]) -> None:
        """Check that nothing stands between the steps of a turn."""
        places = [self._places[element] for element in there]
        if places and places != list(range(places[0], places[0] + len(places))):
            self._book.find("order", self._session, f"steps of one turn apart: {there} at {places}")

    def _check_reads(self) -> None:
        """Each acknowledged read is the beginning of the final journal."""
        for call in self._calls:
            seen = call.seen
            if not call.is_ok or seen is None:
                continue
            self._book.look("reads")
            token = call.invoke.token
            if seen.length > len(self._final):
                what = f"{token} saw {seen.length} tokens, {len(self._final)} are left"
                self._book.find("lost", self._session, what)
            elif self._chains[seen.length] != seen.chain:
                what = f"{token} saw {seen.length} tokens that are not how the journal begins: …{seen.tokens}"
                self._book.find("fork", self._session, what)

    def _check_real_time(self) -> None:
        """What was acknowledged before a call began is in what it saw, and stands before it."""
        ends = sorted((c for c in self._calls if c.is_ok), key=lambda call: call.ended_at)
        done, length, place = 0, 0, -1
        for call in self._calls:
            while done < len(ends) and ends[done].ended_at < call.invoke.time:
                before = ends[done]
                length = max(length, before.seen.length if before.seen else 0)
                place = max(place, self._places.get(_last(before), -1))
                done += 1
            if not call.is_ok:
                continue
            needed, seen = length + call.invoke.steps, call.seen
            if seen is not None and seen.length < needed:
                what = f"{call.invoke.token} saw {seen.length} tokens, at least {needed} were acknowledged and its own"
                self._book.find("stale", self._session, what)
            first = self._places.get(f"{call.invoke.token}.0")
            if first is not None and first < place:
                what = f"{call.invoke.token} stands at {first}, what was acknowledged before it at {place}"
                self._book.find("order", self._session, what)


def _last(call: Call) -> str:
    return f"{call.invoke.token}.{call.invoke.steps - 1}"


def _may_be_part(call: Call) -> bool:
    return call.end is not None and call.end.status in PARTLY
