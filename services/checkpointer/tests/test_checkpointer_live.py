"""A checkpointer as a process on real servers: saves, restores, rescues, and its own end in the middle of them."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from checkpointer.testing.live import TENANT, Live, Owned, files, fill, packs_of, saved
from shared import packs, subjects
from shared.bus import Bus
from shared.cluster import Cluster
from shared.ids import home
from shared.messages import Interruption
from shared.testing.wait import until


async def test_it_beats_and_leaves_when_it_is_asked_to(live: Live) -> None:
    """Its heartbeats name its node and its store; SIGTERM ends it with code 0."""
    first = await live.beat(lambda _beat: True)
    assert (first.node, first.started_ms > 0, first.store.startswith("nats-")) == (
        live.node,
        True,
        True,
    )
    assert live.process is not None
    live.process.send_signal(signal.SIGTERM)

    assert await asyncio.to_thread(live.process.wait, 10) == 0


async def test_what_one_pod_saved_another_restores(live: Live, owned: Owned) -> None:
    """Under the next epoch, in place of whatever lies there; and what was not changed is not stored again."""
    before = fill(live.workspace(owned.pod))
    first = await saved(owned)
    stored = await packs_of(live.bus, owned.record.session)
    again = await saved(owned, first)
    assert again == first
    assert await packs_of(live.bus, owned.record.session) == stored

    await owned.write(replace(owned.record, owner="default-1-1", epoch=2))
    (live.workspace("default-1-1") / "left").write_text("by an attempt that was broken off")
    answer = await live.ask(owned.asking("restore", first, pod="default-1-1"))

    assert answer.state == "done", answer.error
    assert answer.done_bytes == sum(map(len, before.values())) - len(before["link"])
    assert files(live.workspace("default-1-1")) == before


async def test_a_workspace_outlives_the_loss_of_the_snapshot_before(
    live: Live, owned: Owned
) -> None:
    """It can't be read: the next save stores all that there is, instead of never being done."""
    fill(live.workspace(owned.pod))
    first = await saved(owned)
    for shard in range(3):
        await live.bus.js_api(f"STREAM.PURGE.{packs.stream(shard)}")
    for remembered in (live.pods / owned.pod).iterdir():
        if remembered.is_file():  # what it holds need not be read
            remembered.unlink()
    (live.workspace(owned.pod) / "src" / "main.py").write_text("print('later')\n")
    before = files(live.workspace(owned.pod))

    second = await saved(owned, first)

    await owned.write(replace(owned.record, owner="default-1-1", epoch=2))
    live.workspace("default-1-1")
    answer = await live.ask(owned.asking("restore", second, pod="default-1-1"))
    assert answer.state == "done", answer.error
    assert files(live.workspace("default-1-1")) == before


async def test_a_session_that_is_not_the_askers_is_neither_saved_nor_restored(
    live: Live, owned: Owned
) -> None:
    """By the record as its leader has it: of another epoch, another owner, or ended."""
    before = fill(live.workspace(owned.pod))
    first = await saved(owned)
    stored = await packs_of(live.bus, owned.record.session)
    (live.workspace(owned.pod) / "late").write_text("by a zombie")
    zombie = owned.asking("save", first)
    other = owned.asking("restore", first, pod="default-2-1")
    live.workspace("default-2-1")
    await owned.write(replace(owned.record, epoch=2))

    answers = [await live.ask(zombie), await live.ask(other)]

    assert [a.error and a.error.code for a in answers] == ["stale_epoch", "stale_epoch"]
    assert await packs_of(live.bus, owned.record.session) == stored
    assert files(live.workspace("default-2-1")) == {}
    assert before


async def test_a_worker_restores_what_is_its_sessions_alone(live: Live, owned: Owned) -> None:
    """It names a snapshot as it likes: another tenant's pack, or its own snapshot in another's pack, is refused."""
    fill(live.workspace(owned.pod))
    own = await saved(owned)
    other = Owned(live, "default-5-1")
    (live.workspace(other.pod) / "secret").write_text("of another session")
    await other.write()
    foreign = await saved(other)
    live.workspace("default-2-1")
    await owned.write(replace(owned.record, owner="default-2-1", epoch=2))

    answers = [
        await live.ask(owned.asking("restore", ref, pod="default-2-1"))
        for ref in (foreign, replace(own, pack=foreign.pack), own)
    ]

    assert [a.error and a.error.code for a in answers] == ["forbidden", "forbidden", None]
    assert "secret" not in files(live.workspace("default-2-1"))


async def test_a_dead_pods_workspace_is_rescued(live: Live, owned: Owned) -> None:
    """What it saved is the session's boundary, and anybody may claim it; asked again it says the same."""
    fill(live.workspace(owned.pod))
    first = await saved(owned)
    (live.workspace(owned.pod) / "more").write_text("after the last snapshot")
    rescuing = replace(
        owned.record, state="rescuing", owner=f"ckpt-{live.node}", epoch=2, boundary=first
    )
    await owned.write(rescuing)
    owned.mark()
    ask = owned.asking("rescue", first)

    answer = await live.ask(ask, "rescue")
    record = await owned.read()

    assert answer.state == "done", answer.error
    assert answer.snapshot is not None
    assert answer.snapshot.id != first.id
    assert (record.state, record.owner, record.boundary) == ("queued", None, answer.snapshot)
    assert await live.ask(ask, "rescue") == answer
    retained = (await owned.head()).retained
    assert [(each.snapshot.id, each.epoch) for each in retained] == [
        (first.id, 1),
        (answer.snapshot.id, 2),
    ]


async def test_what_holds_nothing_of_the_task_in_hand_is_the_boundary(
    live: Live, owned: Owned
) -> None:
    """That task came in when its worker was dead already: it was not interrupted, and begins with all that there is."""
    fill(live.workspace(owned.pod))
    owned.mark()
    hit = Interruption(cause="process_exit", epoch=1, worker=owned.pod, revoked_ms=1)
    look = replace(owned.asking("look"), epoch=2)
    await owned.write(
        replace(
            owned.record, state="rescuing", owner=f"ckpt-{live.node}", epoch=2, deaths=1,
            death_task="task-0002", interruptions=(hit,),
        )
    )  # fmt: skip

    seen = await live.ask(look, "rescue")
    saved = await live.ask(replace(owned.asking("rescue"), task="task-0002"), "rescue")
    record = await owned.read()

    assert (seen.state, saved.state) == ("done", "done"), (seen.error, saved.error)
    assert (record.boundary, record.latest) == (saved.snapshot, None)
    assert (record.interruptions, record.deaths) == ((), 1)


async def test_a_look_tells_what_is_there_in_part(live: Live, owned: Owned) -> None:
    """Nothing is saved and nothing written: only the mark is read."""
    fill(live.workspace(owned.pod))
    owned.mark(task="task-0002")

    answer = await live.ask(replace(owned.asking("look"), epoch=2), "rescue")

    assert answer.error is not None
    assert answer.error.code == "not_found"


@pytest.mark.parametrize(
    "mark",
    [None, {"epoch": 2}, {"session": "another-session"}, {"task": "task-of-before"}],
    ids=["restored-in-part", "of-another-epoch", "of-another-session", "with-another-task"],
)
async def test_a_workspace_of_no_use_is_not_rescued(live: Live, owned: Owned, mark: Any) -> None:
    """The worker says on its disk what is in it: half a restore, saved as the session's files, would be a loss."""
    fill(live.workspace(owned.pod))
    if mark is not None:
        owned.mark(**mark)
    await owned.write(replace(owned.record, state="rescuing", owner=f"ckpt-{live.node}", epoch=2))

    answer = await live.ask(replace(owned.asking("rescue"), task="task-in-hand"), "rescue")

    assert answer.error is not None
    assert answer.error.code == "not_found"
    assert await packs_of(live.bus, owned.record.session) == set()
    assert (await owned.read()).state == "rescuing"


async def test_what_an_ended_session_left_is_deleted(live: Live, owned: Owned) -> None:
    """Packs first, then the head that named them: the store holds nothing of it any more."""
    fill(live.workspace(owned.pod))
    first = await saved(owned)
    (live.workspace(owned.pod) / "more").write_text("more")
    second = await saved(owned, first)
    session = owned.record.session
    assert await packs_of(live.bus, session)
    closed = replace(
        owned.record, state="closed", owner=None, node=None, boundary=second, ended_ms=1
    )
    await owned.write(closed)

    async def is_gone() -> bool:
        head = await live.bus.read_last(
            subjects.state_stream(home(session)),
            subjects.workspace_head("default", TENANT, session),
        )
        return head is None and not await packs_of(live.bus, session)

    await until(is_gone, within_s=15)


async def test_snapshots_beyond_their_time_are_collected(live: Live, owned: Owned) -> None:
    """By the look at all heads with which a checkpointer begins; what stays is whole."""
    workspace = live.workspace(owned.pod)
    newest = None
    for number in range(20):
        (workspace / "counter").write_bytes(random.Random(number).randbytes(20_000))
        newest = await saved(owned, newest)
    await owned.write(replace(owned.record, boundary=newest))
    live.kill()
    await live.start()

    async def is_collected() -> bool:
        return len((await owned.head()).retained) <= 11  # the last ten, and the hour's

    await until(is_collected, within_s=15)
    answer = await live.ask(owned.asking("restore", newest))

    assert answer.state == "done", answer.error
    assert (workspace / "counter").read_bytes() == random.Random(19).randbytes(20_000)


async def test_a_folder_can_be_the_store(
    admin_bus: Bus, provisioned_cluster: Cluster, tmp_path: Path
) -> None:
    """`local:/folder`, which nodes share: what one node saved another restores."""
    store = f"local:{tmp_path / 'store'}"
    nodes = [
        Live(provisioned_cluster, tmp_path / name, admin_bus, STORE=store) for name in ("a", "b")
    ]
    try:
        for node in nodes:
            await node.start()
        owned = Owned(nodes[0])
        await owned.write()
        before = fill(nodes[0].workspace(owned.pod))
        snapshot = await saved(owned)
        await owned.write(replace(owned.record, owner="default-1-1", epoch=2, node=nodes[1].node))
        nodes[1].workspace("default-1-1")
        answer = await nodes[1].ask(owned.asking("restore", snapshot, pod="default-1-1"))
    finally:
        for node in nodes:
            node.kill()

    assert answer.state == "done", answer.error
    assert files(nodes[1].workspace("default-1-1")) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
async def test_what_is_restored_belongs_to_the_pods_user(live: Live, owned: Owned) -> None:
    """Its workspace's owner: the sandbox's uid, whatever it was where the snapshot was taken."""
    fill(live.workspace(owned.pod))
    first = await saved(owned)
    await owned.write(replace(owned.record, owner="default-1-1", epoch=2))
    other = live.workspace("default-1-1")
    os.chown(other, 12345, 12345)

    answer = await live.ask(owned.asking("restore", first, pod="default-1-1"))

    assert answer.state == "done", answer.error
    assert {path.lstat().st_uid for path in other.rglob("*")} == {12345}
