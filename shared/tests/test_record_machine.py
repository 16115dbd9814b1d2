"""The record's rules under random schedules: several workers, zombies, lost and late answers, two sweepers, cancels.

Unlike the exhaustive model, actors hold real views of the record that get old, and there are several sessions at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from shared import transitions
from shared.errors import Conflict, OutcomeUnknown
from shared.record import OWNED, Record
from shared.testing.actors import Worker, cancel, revocation, sweeper
from shared.testing.world import Ask, Message, Program, World, Write

SESSIONS = ("session-a", "session-b")
WORKERS = 3
ROUNDS_MAX = 400
"""Rounds in which everything must come to rest once nothing fails any more."""

Fate = Literal["answered", "landed", "late", "never"]
"""Of a write: it is answered; it lands but the answer is lost; it lands later, if it still can; it never lands."""


class Actor(msgspec.Struct, eq=False):
    """A program that runs, and what it asks for next."""

    name: str
    program: Program
    ask: Ask


class Protocol(RuleBasedStateMachine):
    """Everything that may happen to two sessions."""

    def __init__(self) -> None:
        """Start the services; nothing is published yet."""
        super().__init__()
        self.world = World()
        self.late: list[Write] = []
        self.born = 0
        self.workers = [self._new_worker() for _ in range(WORKERS)]
        self.sweepers = [
            self._start(name, sweeper(self.world, name)) for name in ("sweeper-1", "sweeper-2")
        ]
        self.cancels: list[Actor] = []
        self.epochs: dict[str, int] = {}
        self.ends: dict[str, str] = {}

    # --- running programs --------------------------------------------------------------------------------------------
    def _start(self, name: str, program: Program) -> Actor:
        return Actor(name, program, next(program))

    def _new_worker(self) -> Actor:
        self.born += 1
        name = f"worker-{self.born}"
        self.world.alive.add(name)
        return self._start(name, Worker(self.world, name).program())

    def _replace(self, worker: Actor) -> None:
        """Its pod is gone; a new one takes the place."""
        self.world.holds.pop(worker.name, None)
        self.world.alive.discard(worker.name)
        self.workers[self.workers.index(worker)] = self._new_worker()

    def _advance(self, actor: Actor, fate: Fate) -> bool:
        """Do what the actor asks for and tell it; return whether its program goes on."""
        try:
            if fate != "answered" and isinstance(actor.ask, Write):
                if fate == "landed":
                    self._land(actor.ask)
                elif fate == "late":
                    self.late.append(actor.ask)
                actor.ask = actor.program.throw(OutcomeUnknown("no answer"))
                return True
            try:
                answer = (
                    self.world.write(actor.ask) if isinstance(actor.ask, Write) else actor.ask()
                )
            except Conflict as conflict:
                actor.ask = actor.program.throw(conflict)
            else:
                actor.ask = actor.program.send(answer)
        except StopIteration:
            return False
        return True

    def _land(self, write: Write) -> None:
        try:
            self.world.write(write)
        except Conflict:
            return  # somebody else was faster: it never will

    def _step(self, actor: Actor, fate: Fate = "answered") -> None:
        if self._advance(actor, fate):
            return
        if actor in self.workers:
            self._replace(actor)
        else:
            self.cancels.remove(actor)

    # --- what may happen ---------------------------------------------------------------------------------------------
    @rule(session=st.sampled_from(SESSIONS))
    def publish(self, session: str) -> None:
        """A client publishes a session's first task, or a retry of it lands on another shard."""
        self.world.publish(session)

    @rule(session=st.sampled_from(SESSIONS))
    def follow_up(self, session: str) -> None:
        """A client sends the session's next task."""
        if session in self.world.inboxes:
            self.world.follow_up(session)

    @rule(index=st.integers(0, WORKERS - 1), steps=st.integers(1, 12))
    def work(self, index: int, steps: int) -> None:
        """A worker gets on, as far as it may."""
        for _ in range(steps):
            self._step(self.workers[index])

    @rule(
        index=st.integers(0, WORKERS - 1),
        fate=st.sampled_from(["landed", "late", "never"]),
    )
    def lose_answer(self, index: int, fate: Fate) -> None:
        """A worker gets on to its next write, and hears nothing of it."""
        worker = self.workers[index]
        for _ in range(12):
            if isinstance(worker.ask, Write) or worker not in self.workers:
                break
            self._step(worker)
        if worker in self.workers:
            self._step(worker, fate)

    @rule(index=st.integers(0, WORKERS - 1))
    def crash(self, index: int) -> None:
        """A worker's process dies."""
        self._replace(self.workers[index])

    @rule(
        index=st.integers(0, 1),
        steps=st.integers(1, 6),
        fate=st.sampled_from(["answered", "landed", "late"]),
    )
    def sweep(self, index: int, steps: int, fate: Fate) -> None:
        """A sweeper gets on; its table may be old by the time it acts."""
        for _ in range(steps):
            self._step(self.sweepers[index], fate)

    @rule(session=st.sampled_from(SESSIONS), silent=st.booleans(), times=st.integers(1, 4))
    def lose_owner(self, session: str, *, silent: bool, times: int) -> None:
        """A session's owner is given up, alive (it becomes a zombie) or dead; the next one claims it. Or so again."""
        for _ in range(times):
            seq, record = self.world.records.get(session, (0, None))
            if record is None or record.state not in OWNED:
                return
            for worker in self.workers:
                if worker.name == record.owner and not silent:
                    self._replace(worker)
            self._land(revocation(self.world, "manager", record, seq))
            self._claim_again(session)

    def _claim_again(self, session: str) -> None:
        """A worker that waits finds a token of this session, and claims."""
        for worker in list(self.workers):
            if worker.name not in self.world.holds and worker.ask == self.world.pull:
                self.world.queue.insert(0, Message(session, plain=False))
                while worker in self.workers and worker.name not in self.world.holds:
                    self._step(worker)
                    if worker.ask == self.world.pull:
                        break  # there was nothing to claim
                return

    @rule(session=st.sampled_from(SESSIONS), index=st.integers(0, 4))
    def cancel(self, session: str, index: int) -> None:
        """A client cancels a task, whatever its stage."""
        if session in self.world.inboxes:
            tasks = [session, *(task for _, task in self.world.inboxes[session])]
            task = tasks[index % len(tasks)]
            self.cancels.append(self._start("canceller", cancel(self.world, session, task)))

    @precondition(lambda self: self.cancels)
    @rule(index=st.integers(0, 9))
    def go_on_cancelling(self, index: int) -> None:
        """A cancel gets on; what it read may be old by then."""
        self._step(self.cancels[index % len(self.cancels)])

    @precondition(lambda self: self.late)
    @rule(index=st.integers(0, 9))
    def land_late(self, index: int) -> None:
        """A write without an answer lands after all."""
        self._land(self.late.pop(index % len(self.late)))

    @rule()
    def redeliver(self) -> None:
        """The queue delivers again what nobody acked."""
        for message in self.world.queue:
            message.flying = False

    # --- what must hold ----------------------------------------------------------------------------------------------
    @invariant()
    def epochs_grow(self) -> None:
        """A session's epoch never goes back."""
        for session, (_, record) in self.world.records.items():
            assert record.epoch >= self.epochs.get(session, 0)
            self.epochs[session] = record.epoch

    @invariant()
    def a_result_stays(self) -> None:
        """A task has one terminal result, which never changes."""
        for results in self.world.results.values():
            for task, result in results.items():
                assert self.ends.setdefault(task, result.status) == result.status

    @invariant()
    def a_lost_workspace_is_told(self) -> None:
        """What a client knows of the workspace is what the next task finds there."""
        for results in self.world.results.values():
            known: tuple[str, ...] = ()
            for result in results.values():
                if result.status == "ok":
                    assert result.before == (() if result.lost else known)
                    known = (*result.before, result.task)

    def teardown(self) -> None:
        """Once nothing fails any more, every accepted task gets its result and the world comes to rest."""
        for write in self.late:
            self._land(write)
        for _ in range(ROUNDS_MAX):
            if not self.world.unfinished():
                break
            self.redeliver()
            for actor in [*self.workers, *self.sweepers, *self.cancels]:
                self._step(actor)
        assert self.world.unfinished() == []
        self.epochs_grow()
        self.a_result_stays()
        self.a_lost_workspace_is_told()


TestProtocol = Protocol.TestCase
TestProtocol.settings = settings(
    max_examples=150, stateful_step_count=60, suppress_health_check=[HealthCheck.too_slow]
)


CLAIM, REVOKE = transitions.claim, transitions.revoke
SPOILT: dict[str, tuple[str, Callable[..., Record]]] = {
    "claims past an owner": (
        "claim",
        lambda record, **act: CLAIM(replace(record, state="queued"), **act),
    ),
    "claims under the old epoch": (
        "claim",
        lambda record, **act: replace(CLAIM(record, **act), epoch=record.epoch),
    ),
    "revokes in words only": (
        "revoke",
        lambda record, **act: replace(REVOKE(record, **act), epoch=record.epoch),
    ),
    "wakes nobody": ("wake", lambda record, **_: record),
    "loses a workspace in silence": ("give_up", lambda record, **_: record),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_spoilt_transition_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine gets far enough to see it."""
    monkeypatch.setattr(transitions, *SPOILT[name])
    few = settings(
        max_examples=300,
        stateful_step_count=60,
        suppress_health_check=list(HealthCheck),
        database=None,
        derandomize=True,
        report_multiple_bugs=False,
        deadline=None,
        phases=[Phase.generate],
    )

    with pytest.raises(AssertionError):
        run_state_machine_as_test(Protocol, settings=few)
