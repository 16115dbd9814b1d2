"""What is asked about snapshots while a shard elects its leader, and what is saved while the servers can store nothing."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from agent_sandbox.events import Output
from shared.bus import Message
from shared.ids import home
from shared.messages import WorkerBeat, decode
from shared.subjects import state_stream
from shared.testing.look import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

POOLS = """\
[[pool]]
name = "default"
stock = 2
"""
BEATS = 20
"""Four a second: nothing that is stored takes so long."""
SERVERS = {"n1", "n2", "n3"}
WRITES = """
import hashlib, os, time
data = os.urandom(3_000_000)
open("data.bin", "wb").write(data)
open("sum.txt", "w").write(hashlib.sha256(data).hexdigest() + "  data.bin")
print("written", flush=True)
while not os.path.exists("go-on"):
    time.sleep(0.05)
"""


async def test_snapshots_through_an_election_and_an_outage(start_rough: Any) -> None:
    """In one cluster, one after the other: to start one takes longer than either."""
    cluster = await start_rough(POOLS)
    await questions_about_snapshots_are_answered_after_an_election(cluster)
    await cluster.whole()
    await a_result_waits_for_its_files_while_the_servers_can_store_nothing(cluster)


async def questions_about_snapshots_are_answered_after_an_election(cluster: Any) -> None:
    """Nobody asks twice by hand: the session's home has no leader for seconds, and forks are made once all the same."""
    async with cluster.client() as client:
        session = await client.create_session()
        (await session.exec("echo 1 > figure")).check()
        first = (await session.snapshots())[0]
        (await session.exec("echo 2 > figure")).check()
        fork = str(uuid.uuid4())
        info = await cluster.admin.js_api(f"STREAM.INFO.{state_stream(home(session.id))}", {})
        leader = info["cluster"]["leader"]

        async with cluster.without_servers(leader):
            listed, named, changed, forked = await asyncio.gather(
                session.snapshots(),
                session.name_snapshot(first.id, "first"),
                _paths(session.diff(first.id)),
                session.fork(first.id, session_id=fork),
            )

        assert [len(listed), named.name, changed, forked.id] == [2, "first", {"figure"}, fork]
        assert (await forked.exec("cat figure")).check().stdout == "1\n"
        assert {row.forks for row in await session.snapshots()} == {0, 1}


async def _paths(rows: Any) -> set[str]:
    return {row.path async for row in rows}


class Beats:
    """What a worker says of itself."""

    def __init__(self) -> None:
        """Hear nothing yet."""
        self.saving = 0
        """Heartbeats in a row that say that it saves."""

    def heard(self, message: Message) -> None:
        """Take in a heartbeat."""
        saves = decode(message.data, WorkerBeat).state == "saving"
        self.saving = self.saving + 1 if saves else 0


async def a_result_waits_for_its_files_while_the_servers_can_store_nothing(cluster: Any) -> None:
    """Two of three servers are dead: no pack is stored. It is said so; then all goes on, and nothing is lost."""
    async with cluster.client() as client:
        session = await client.create_session()
        (await session.exec("echo before > before.txt")).check()
        record = await cluster.look.in_state(session.id, "running")
        task = await session.start(["python3", "-c", WRITES], timeout_s=200)
        async for event in task.events():
            if isinstance(event, Output) and b"written" in event.data:
                break
        beats = Beats()
        await cluster.admin.subscribe(f"hb.*.{record.owner}", beats.heard)
        stays = cluster.server_of(record.owner)  # it keeps contact: nobody gives it up

        async with cluster.without_servers(*(SERVERS - {stays})):
            _workspace(cluster, record).joinpath("go-on").touch()
            await until(lambda: beats.saving >= BEATS, within_s=60)
        done = await task.result(wait_s=120)
        kept = await session.exec("sha256sum -c sum.txt; cat before.txt", timeout_s=60)

        assert done.check().raw.epoch == record.epoch
        assert kept.check().stdout.splitlines() == ["data.bin: OK", "before"]
        after = await cluster.look.record(session.id)
        assert after is not None
        assert (after.losses, after.lost, after.deaths) == (0, None, 0)


def _workspace(cluster: Any, record: Any) -> Any:
    return cluster.folder.nodes / record.node / "pods" / record.owner / "workspace"
