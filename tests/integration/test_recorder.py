"""The recorder on real streams: every version is heard, what was not heard is read, and the rest is counted."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shared import headers, messages, subjects, transitions
from shared.bus import Bus, Write
from shared.ids import home
from shared.messages import TaskResult
from shared.record import Hold, Origin, Record
from shared.testing.checker import judge
from shared.testing.history import Accepted, Begin
from shared.testing.look import until
from shared.testing.names import unique
from shared.testing.plugin import Connect
from shared.testing.recorder import Recorder, record

POOL = "default"


class Owner:
    """Stores what a worker stores, for one session."""

    def __init__(self, bus: Bus, tenant: str) -> None:
        """Begin with a session of its own."""
        self.bus, self.tenant, self.session = bus, tenant, unique("session")
        self.seq = 0
        origin = Origin(session=self.session, tenant=tenant, pool=POOL, lane="batch", accepted_ms=1)
        self.record = transitions.create(origin, owner="w1", node="n", now_ms=1)

    @property
    def subject(self) -> str:
        """Of its record."""
        return subjects.record(POOL, self.tenant, self.session)

    async def create(self) -> Accepted:
        """Create the session, as after a pull of its first task."""
        body = messages.encode(self.record)
        payload = subjects.payload(POOL, self.tenant, self.session)
        self.seq = await self.bus.batch(
            [Write(payload, b"{}", expected_seq=0), Write(self.subject, body, expected_seq=0)]
        )
        return Accepted(tenant=self.tenant, session=self.session, task=self.session)

    async def write(self, new: Record) -> None:
        """Store a version."""
        self.seq = await self.bus.compare_and_set(
            self.subject, messages.encode(new), expected_seq=self.seq
        )
        self.record = new

    async def finish(self) -> None:
        """Commit the first task."""
        result = TaskResult(
            task=self.session, session=self.session, tenant=self.tenant, status="ok",
            worker="w1", epoch=self.record.epoch,
        )  # fmt: skip
        done = transitions.complete(
            self.record, Hold("w1", self.record.epoch), inbox_seq=None, then="keep", now_ms=2
        )
        stored = subjects.stored_result(self.tenant, self.session, self.session)
        self.seq = await self.bus.batch(
            [
                Write(stored, messages.encode(result), expected_seq=0),
                Write(self.subject, messages.encode(done), expected_seq=self.seq),
            ]
        )
        self.record = done

    async def begin(self) -> None:
        """Tell that user code of the first task has begun."""
        about = {headers.EVENT: "started", headers.EPOCH: str(self.record.epoch)}
        place = subjects.output(self.tenant, self.session, self.session)
        await self.bus.publish_acked(place, b"{}", message_id=unique("begin"), headers=about)


@pytest.fixture
async def owner(admin_bus: Bus) -> Owner:
    """An owner of a session of a tenant that nobody else uses."""
    return Owner(admin_bus, unique("tenant"))


async def test_every_version_is_kept_and_judged(
    owner: Owner, admin_bus: Bus, connect: Connect
) -> None:
    """Records hold their last version only; the history has all, each once, though two connections listen."""
    async with record(admin_bus, await connect()) as recorder:
        accepted = [await owner.create()]
        await owner.begin()
        await owner.finish()
        inbox = subjects.inbox(owner.tenant, owner.session, "task-0002")
        unheard = await admin_bus.publish_acked(inbox, b"{}", message_id=unique("unheard"))
        history = await recorder.history(accepted, tenant=owner.tenant)

    assert sorted(v.record.tasks_done for v in history.versions) == [0, 1]
    assert [one.key[2] for one in history.outcomes] == [owner.session]
    assert history.outcomes[0].at in history.kept
    assert history.begins == (Begin(owner.tenant, owner.session, owner.session, 1),)
    assert history.unseen == 0
    verdict = judge(history)
    assert (verdict.accepted, verdict.finished, verdict.lost) == (2, 1, 1)
    assert f"inbox sequence {unheard.seq}" in verdict.findings[0].what


async def test_what_nobody_heard_is_read_or_counted(owner: Owner, admin_bus: Bus) -> None:
    """A dying server stores more than it tells: what lies there is read, what was overwritten is known to be missing."""
    recorder = Recorder(admin_bus)
    await recorder.begin()
    accepted = [await owner.create()]
    await owner.finish()
    history = await recorder.history(accepted, tenant=owner.tenant)

    # Mostly the first version is gone by then; a replica that is behind may still show it.
    assert max(version.record.tasks_done for version in history.versions) == 1
    assert len(history.versions) + history.unseen == 2
    verdict = judge(history)
    assert (verdict.ok, verdict.unknown) == (True, history.unseen), verdict.explain()


async def test_what_was_stored_last_may_be_removed_by_now(owner: Owner, admin_bus: Bus) -> None:
    """The head of a deleted workspace, say: that its sequence is read no more does not mean that a replica is behind."""
    async with record(admin_bus) as recorder:
        accepted = await owner.create()
        await owner.finish()
        stream = subjects.state_stream(home(owner.session))
        head = subjects.workspace_head(POOL, owner.tenant, owner.session)
        await admin_bus.compare_and_set(head, b"{}", expected_seq=0)
        await admin_bus.js_api(f"STREAM.PURGE.{stream}", {"filter": head})

        verdict = judge(await recorder.history([accepted], tenant=owner.tenant))

    assert verdict.ok, verdict.explain()


async def test_an_overwritten_result_is_found(owner: Owner, admin_bus: Bus) -> None:
    """As a zombie would do without fencing: the first result was heard, the second one is what stays."""
    async with record(admin_bus) as recorder:
        accepted = [await owner.create()]
        await owner.finish()
        await until(lambda: _results(recorder))
        stored = subjects.stored_result(owner.tenant, owner.session, owner.session)
        again = TaskResult(
            task=owner.session, session=owner.session, tenant=owner.tenant, status="ok"
        )
        await admin_bus.publish_acked(stored, messages.encode(again), message_id=unique("again"))
        await owner.write(replace(owner.record, epoch=owner.record.epoch - 1))
        verdict = judge(await recorder.history(accepted, tenant=owner.tenant))

    assert (verdict.doubled, verdict.stale) == (1, 1), verdict.explain()


def _results(recorder: Recorder) -> int:
    return sum(subject.startswith("done.") for subject, _ in recorder.stored.values())
