"""Answers what clients ask about sessions and pools."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import msgspec

from pool_manager.core.nodes import class_on
from pool_manager.core.slots import SILENT_S, Slots
from pool_manager.core.table import Row, key_of
from pool_manager.core.waits import Line, ahead_of_interactive, wait_s
from pool_manager.core.world import World
from pool_manager.loops.cancel import BUSY
from pool_manager.loops.hands import Hands
from pool_manager.loops.list_tasks import TaskLister
from pool_manager.ports import Heard, Known, Replies, Truth
from pool_manager.ports.letters import Letters
from pool_manager.ports.results import Results
from shared import messages
from shared.errors import ErrorInfo, NotFound, ServiceError
from shared.ids import parse_task_id
from shared.messages import Answer, Message
from shared.record import Record
from shared.views import (
    LetterAnswer,
    LetterAsk,
    LetterDropped,
    LettersAnswer,
    LettersAsk,
    ListAsk,
    NodeView,
    ObjectDropAsk,
    PoolsAnswer,
    PoolView,
    SessionAnswer,
    SessionRow,
    SessionsAnswer,
    ShowAsk,
    TasksAnswer,
    TasksAsk,
)

Serve = Callable[[str, bytes], Awaitable[msgspec.Struct]]
"""(tenant, body of the question) -> answer."""


class _Failed(Message, frozen=True, kw_only=True):
    error: ErrorInfo


class Sources(NamedTuple):
    """Where answers come from."""

    truth: Truth
    results: Results
    letters: Letters


class Answerer:
    """Serves `ask.<tenant>.<what>`."""

    def __init__(
        self,
        world: World,
        sources: Sources,
        replies: Replies,
        drop_object: Callable[[str, str], Awaitable[None]],
    ) -> None:
        """Answer from what `world` knows, and from `sources`; `drop_object` removes a tenant's object by its id."""
        self.hands = Hands("answer", count=8, pending_max=512)
        self._world = world
        self._truth = sources.truth
        self._tasks = TaskLister(sources.truth, sources.results)
        self._letters = sources.letters
        self._replies = replies
        self._drop = drop_object
        self._number = 0
        self._others: dict[str, Hands] = {}
        self._by_name: dict[str, Serve] = {
            "sessions": self._sessions,
            "session": self._session,
            "tasks": self._list_tasks,
            "pools": self._pools,
            "dead_letters": self._letters_page,
            "dead_letter": self._letter,
            "dead_letter_drop": self._drop_letter,
            "object_drop": self._drop_object,
        }

    def add(self, what: str, serve: Serve, hands: Hands) -> None:
        """Have questions of one kind answered by `serve`, with hands of their own: nothing else waits for them."""
        self._by_name[what] = serve
        self._others[what] = hands

    def add_all(self, serves: Mapping[str, Serve], hands: Hands) -> None:
        """Have questions of several kinds answered by `hands` of their own."""
        for what, serve in serves.items():
            self.add(what, serve, hands)

    async def heard(self, message: Heard) -> None:
        """Take a request."""
        self._number += 1
        hands = self._others.get(message.subject.split(".", 2)[2], self.hands)
        if message.reply and not hands.offer(str(self._number), lambda: self._serve(message)):
            await self._replies.answer(message.reply, messages.encode(_Failed(error=BUSY)))

    async def _serve(self, message: Heard) -> None:
        _, tenant, what = message.subject.split(".", 2)
        try:
            if (serve := self._by_name.get(what)) is None:
                raise NotFound(f"nothing to ask under {what[:80]!r}: {', '.join(self._by_name)}")
            answer = await serve(tenant, message.data)
        except ServiceError as exc:
            answer = _Failed(error=exc.info())
        await self._replies.answer(message.reply, messages.encode(answer))

    async def _sessions(self, tenant: str, body: bytes) -> SessionsAnswer:
        ask = messages.decode(body, ListAsk) if body else ListAsk()
        table = self._world.table
        rows = [
            row.record
            for source in (table, table.newest_ended())
            for row in source
            if row.record.tenant == tenant and _is_asked_for(row, ask)
        ]
        rows.sort(key=lambda record: record.session)
        page = rows[: ask.limit]
        return SessionsAnswer(
            sessions=tuple(_row_of(record) for record in page),
            next=page[-1].session if len(rows) > len(page) else None,
        )

    async def _session(self, tenant: str, body: bytes) -> SessionAnswer:
        ask = messages.decode(body, ShowAsk)
        session = parse_task_id(ask.session)
        known: Known | None = await self._truth.read(tenant, session)
        if known is None:
            return SessionAnswer()
        worker = self._world.detector.worker(known.record.owner)
        if worker is None:
            return SessionAnswer(record=known.record)
        beat = worker.beat
        names_it = worker.named == (key_of(tenant, session), known.record.epoch)
        return SessionAnswer(
            record=known.record,
            isolation=beat.isolation,
            worker_state=beat.state if names_it else "",
            task=beat.task if names_it else None,
            reason=beat.reason if names_it else "",
            reason_ms=beat.reason_ms if names_it else 0,
            silent_ms=round((time.monotonic() - worker.seen) * 1000),
        )

    async def _list_tasks(self, tenant: str, body: bytes) -> TasksAnswer:
        return await self._tasks.page(tenant, messages.decode(body, TasksAsk))

    async def _letters_page(self, tenant: str, body: bytes) -> LettersAnswer:
        ask = messages.decode(body, LettersAsk) if body else LettersAsk()
        rows = await self._letters.page(tenant, ask.before, ask.limit + 1)
        page = rows[: ask.limit]
        more = len(rows) > len(page)
        return LettersAnswer(letters=tuple(page), next=page[-1].number if more else None)

    async def _letter(self, tenant: str, body: bytes) -> LetterAnswer:
        found = await self._letters.find(tenant, messages.decode(body, LetterAsk).number)
        return LetterAnswer() if found is None else LetterAnswer(row=found[0], body=found[1])

    async def _drop_letter(self, tenant: str, body: bytes) -> LetterDropped:
        """Remove one of the tenant's letters: only what its own subject holds is found."""
        found = await self._letters.find(tenant, messages.decode(body, LetterAsk).number)
        if found is None:
            return LetterDropped()
        return LetterDropped(dropped=await self._letters.remove(found[0].number))

    async def _drop_object(self, tenant: str, body: bytes) -> Answer:
        for object_id in messages.decode(body, ObjectDropAsk).objects:
            await self._drop(tenant, object_id)
        return Answer(ok=True)

    async def _pools(self, _tenant: str, _body: bytes) -> PoolsAnswer:
        now = time.monotonic()
        nodes = self._world.nodes
        peers = self._world.peers
        queued = Counter(row.record.pool for row in self._world.table.queued.values())
        return PoolsAnswer(
            pools=tuple(
                self._pool_view(slots, queued[name]) for name, slots in self._world.pools.items()
            ),
            nodes=tuple(
                NodeView(
                    node=node.name,
                    alive=nodes.is_alive(node.name, now),
                    pods=len(node.pods),
                    capacity=node.capacity,
                    draining=node.draining,
                    isolation=node.isolation,
                )
                for node in sorted(nodes, key=lambda node: node.name)
            )
            + tuple(NodeView(node=name, alive=False) for name in self._world.dead_nodes),
            managers=tuple(sorted([peers.me, *peers.alive(now)])),
        )

    def _pool_view(self, slots: Slots, queued: int) -> PoolView:
        spec = slots.spec
        stock = self._world.stocks.get(spec.name)
        return PoolView(
            pool=spec.name,
            stock=slots.target,
            warm=slots.count["warm"],
            starting=slots.count["starting"],
            bound=self._world.table.owned_count(spec.name),
            queued=queued,
            pods_max=spec.pods_max,
            isolation=spec.isolation,
            classes=dict(self._classes(slots)),
            reason=slots.why(time.monotonic()),
            policy=None if stock is None else stock.view(),
            wait_s=self._wait_s(slots),
        )

    def _wait_s(self, slots: Slots) -> float | None:
        """Return about how long an interactive activation that comes now waits for a pod."""
        now = time.monotonic()
        count, spec = slots.count, slots.spec
        there = count["warm"] + count["starting"] + self._world.table.owned_count(spec.name)
        line = Line(
            ahead=ahead_of_interactive(slots.waiting),
            warm=count["warm"],
            starting=count["starting"],
            room=max(spec.pods_max - there, 0),
            starting_max=spec.starting_max,
            is_held=bool(slots.why(now)),
        )
        return wait_s(line, slots.flow, now)

    def _classes(self, slots: Slots) -> Counter[str]:
        """Count the classes that the pool's workers say they have; before any did, what nodes would give."""
        alive = self._world.detector.heard_since(time.monotonic() - SILENT_S)
        mine = [worker.beat for worker in alive if worker.beat.pool == slots.spec.name]
        found = Counter(beat.isolation for beat in mine if beat.isolation)
        if found:
            return found
        would = {class_on(node, slots.spec.isolation) for node in self._world.nodes}
        return Counter({klass: 0 for klass in would if klass})


def _is_asked_for(row: Row, ask: ListAsk) -> bool:
    record = row.record
    return (
        (ask.after is None or record.session > ask.after)
        and ask.state in (None, record.state)
        and ask.pool in (None, record.pool)
    )


def _row_of(record: Record) -> SessionRow:
    return SessionRow(
        session=record.session,
        pool=record.pool,
        state=record.state,
        keep=record.keep,
        worker=record.owner,
        node=record.node,
        epoch=record.epoch,
        accepted_ms=record.accepted_ms,
        tasks_done=record.tasks_done,
        last_done_ms=record.last_done_ms,
        losses=record.losses,
        ended_ms=record.ended_ms,
        end_reason=record.end_reason,
    )
