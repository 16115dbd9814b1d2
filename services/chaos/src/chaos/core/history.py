"""A history, sorted into what checkers and measures look at. Rows may come in any order of their kinds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from chaos.core.rows import (
    Accepted,
    AnyRow,
    Cut,
    Effect,
    Footer,
    Gauge,
    Header,
    Nemesis,
    Op,
    Phase,
    Seen,
    Started,
    Stored,
    Usage,
    Version,
)

SPARSE_PER_S = 4.0


class Call(msgspec.Struct, kw_only=True):
    """One call of a client, from its invocation to what it heard last."""

    invoke: Op
    end: Op | None = None
    accepted_at: float | None = None

    @property
    def is_ok(self) -> bool:
        """Whether the client was told that it is done."""
        return self.end is not None and self.end.type == "ok"

    @property
    def has_failed(self) -> bool:
        """Whether the client was told that it is surely not done."""
        return self.end is not None and self.end.type == "fail"

    @property
    def ended_at(self) -> float:
        """When the client heard what became of it; infinite: never."""
        return float("inf") if self.end is None else self.end.time

    @property
    def seen(self) -> Seen | None:
        """The journal as it read it back."""
        return self.end.seen if self.end is not None else None


class History(msgspec.Struct, kw_only=True):
    """All that is known of a run."""

    header: Header | None = None
    footer: Footer | None = None
    is_torn: bool = False
    """The file ends in the middle of a row: whoever wrote it died."""
    calls: list[Call] = msgspec.field(default_factory=list)
    effects: list[Effect] = msgspec.field(default_factory=list)
    started: list[Started] = msgspec.field(default_factory=list)
    versions: list[Version] = msgspec.field(default_factory=list)
    results: list[Stored] = msgspec.field(default_factory=list)
    accepted: list[Accepted] = msgspec.field(default_factory=list)
    nemesis: list[Nemesis] = msgspec.field(default_factory=list)
    cuts: list[Cut] = msgspec.field(default_factory=list)
    gauges: list[Gauge] = msgspec.field(default_factory=list)
    usages: list[Usage] = msgspec.field(default_factory=list)
    phases: list[Phase] = msgspec.field(default_factory=list)
    end_s: float = 0.0
    """Time of the last row."""

    @property
    def is_sparse(self) -> bool:
        """Whether one-shots came too seldom to measure gaps of the queue by: then those of sessions' tasks count as well."""
        settings = self.header.settings if self.header else {}
        return float(settings.get("one_shots_per_s", SPARSE_PER_S)) < SPARSE_PER_S

    def acks(self) -> list[float]:
        """Return when the PubAcks came that gaps of the queue are taken over, in order."""
        return sorted(one.time for one in self.accepted if one.is_once or self.is_sparse)

    def by_session(self) -> dict[str, list[Call]]:
        """Return the calls of each session, in the order of their invocations."""
        found: dict[str, list[Call]] = defaultdict(list)
        for call in self.calls:
            found[call.invoke.session].append(call)
        return found

    def versions_of(self) -> dict[str, list[Version]]:
        """Return the versions of each session's record, in stream order."""
        found: dict[str, list[Version]] = defaultdict(list)
        for version in sorted(self.versions, key=lambda one: one.at):
            found[version.session].append(version)
        return found


def gather(rows: Iterable[AnyRow], *, is_torn: bool = False) -> History:
    """Return the history of a run's rows; calls are paired with what became of them."""
    found = History(is_torn=is_torn)
    calls: dict[str, Call] = {}
    lists: dict[type, list[AnyRow]] = defaultdict(list)
    for row in rows:
        found.end_s = max(found.end_s, row.time)
        match row:
            case Op(type="invoke"):
                calls[row.task] = Call(invoke=row)
            case Op():
                if (call := calls.get(row.task)) is not None:
                    call.end = row
            case Accepted():
                found.accepted.append(row)
                if (call := calls.get(row.task)) is not None:
                    call.accepted_at = row.time
            case Header():
                found.header = row
            case Footer():
                found.footer = row
            case _:
                lists[type(row)].append(row)
    found.calls = sorted(calls.values(), key=lambda call: call.invoke.time)
    found.effects, found.started = lists[Effect], lists[Started]  # type: ignore[assignment]  # sorted by type
    found.versions, found.results = lists[Version], lists[Stored]  # type: ignore[assignment]  # likewise
    found.nemesis, found.cuts = lists[Nemesis], lists[Cut]  # type: ignore[assignment]  # likewise
    found.gauges, found.phases = lists[Gauge], lists[Phase]  # type: ignore[assignment]  # likewise
    found.usages = lists[Usage]  # type: ignore[assignment]  # likewise
    return found
