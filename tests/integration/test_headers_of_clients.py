"""Headers by which nats-server 2.15 does more than store a message: what becomes of them in a client's publish."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from shared import subjects
from shared.bus import Bus
from shared.ids import SHARDS
from shared.testing.names import unique
from shared.testing.plugin import Connect
from shared.testing.wait import until

AHEAD = "@at 2035-01-01T00:00:00Z"
TARGET = "q.0.victim.default.batch"
REFUSED = {
    "a schedule": {"Nats-Schedule": AHEAD, "Nats-Schedule-Target": TARGET},
    "a schedule that repeats": {"Nats-Schedule": "@every 1s", "Nats-Schedule-Target": TARGET},
    "a schedule with a lifetime": {
        "Nats-Schedule": AHEAD,
        "Nats-Schedule-Target": TARGET,
        "Nats-Schedule-TTL": "1m",
    },
    "a schedule of another message": {
        "Nats-Schedule": AHEAD,
        "Nats-Schedule-Target": TARGET,
        "Nats-Schedule-Source": TARGET,
    },
    "a schedule in a time zone": {
        "Nats-Schedule": "0 0 1 1 1 *",
        "Nats-Schedule-Time-Zone": "UTC",
        "Nats-Schedule-Target": TARGET,
    },
    "a schedule that clears": {
        "Nats-Schedule": AHEAD,
        "Nats-Schedule-Target": TARGET,
        "Nats-Schedule-Rollup": "sub",
    },
    "a lifetime": {"Nats-TTL": "1s"},
    "no lifetime": {"Nats-TTL": "never"},
    "a batch": {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"},
    "a batch left open": {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1"},
    "a clearing of the stream": {"Nats-Rollup": "all"},
    "a clearing of the subject": {"Nats-Rollup": "sub"},
    "a counter": {"Nats-Incr": "+1"},
    "another stream": {"Nats-Expected-Stream": "0"},
    "another sequence": {"Nats-Expected-Last-Sequence": "4294967295"},
    "another message before it": {"Nats-Expected-Last-Subject-Sequence": "4294967295"},
    "another subject's sequence": {
        "Nats-Expected-Last-Subject-Sequence": "4294967295",
        "Nats-Expected-Last-Subject-Sequence-Subject": TARGET,
    },
}
"""`Nats-Expected-Last-Msg-Id` is missing: one stops a replicated stream for good (docs/security.md)."""


@pytest.fixture
def tenant() -> str:
    """A tenant of one test."""
    return unique("t")


def ways(tenant: str) -> dict[str, str]:
    """Return a client's subjects that lead into streams: each shard of the queue, of inboxes, of objects."""
    session, task = uuid4().hex, uuid4().hex
    return {
        "task": subjects.task(tenant, "default", "batch"),
        "session": subjects.session_task(tenant, session, task),
        **{f"object {n}": f"object.{n}.{tenant}.{session}.{task}" for n in range(SHARDS)},
    }


@pytest.fixture
async def client(connect_client: Connect, tenant: str) -> Bus:
    """A client's connection."""
    return await connect_client(tenant)


@pytest.fixture
async def held(admin_bus: Bus, tenant: str) -> AsyncIterator[Any]:
    """Return a function that counts what all streams hold of the tenant, or was aimed at a victim."""

    async def count() -> int:
        found = 0
        for kind in ("Q", "I", "O"):
            for shard in range(SHARDS):
                stream = f"{kind}{shard}"
                for whose in (tenant, "victim"):
                    wanted = {"subjects_filter": f"*.*.{whose}.>"}
                    info = await admin_bus.js_api(f"STREAM.INFO.{stream}", wanted)
                    found += sum((info["state"].get("subjects") or {}).values())
        return found

    yield count
    for kind in ("Q", "I", "O"):
        for shard in range(SHARDS):
            await admin_bus.js_api(f"STREAM.PURGE.{kind}{shard}", {"filter": f"*.*.{tenant}.>"})


@pytest.mark.parametrize("what", REFUSED)
async def test_a_client_is_refused(what: str, client: Bus, tenant: str, held: Any) -> None:
    """On every way into a stream, with an error that is definite, and nothing is stored."""
    before = await held()
    answers = {
        way: msgspec.json.decode(
            (
                await client.request(
                    subject,
                    b"{}",
                    timeout_s=5,
                    headers=REFUSED[what] | {"Nats-Msg-Id": uuid4().hex},
                )
            ).data
        )
        for way, subject in ways(tenant).items()
    }

    assert {way: answer for way, answer in answers.items() if "error" not in answer} == {}
    assert await held() == before


async def test_other_requests_store_nothing_whatever_their_headers(
    client: Bus, tenant: str, held: Any
) -> None:
    """Questions that no stream takes: the headers are the receiver's, who does not read them."""
    before = await held()
    everything = {name: value for headers in REFUSED.values() for name, value in headers.items()}
    for subject in (
        f"result.{tenant}.{uuid4().hex}.task0001",
        f"chunk.0.{tenant}.{uuid4().hex}.0",
        f"cancel.{tenant}.{uuid4().hex}.task0001",
        f"ask.{tenant}.pools",
    ):
        await client.publish(subject, b"", headers=everything)
    await client.probe(timeout_s=5)

    assert await held() == before


async def test_a_trace_of_a_clients_message_stays_on_its_side(
    client: Bus, admin_bus: Bus, tenant: str, held: Any
) -> None:
    """The servers report the way of a message where a header says: neither into a stream nor across the wall."""
    heard: list[str] = []
    await admin_bus.subscribe("spy", lambda message: heard.append(message.subject))
    before = await held()
    for aim in ("spy", TARGET, f"object.0.victim.{uuid4().hex}.0", f"ask.{tenant}.pools"):
        headers = {"Nats-Trace-Dest": aim, "Nats-Trace-Only": "true"}
        await client.publish(subjects.task(tenant, "default", "batch"), b"{}", headers=headers)
    await client.probe(timeout_s=5)
    await admin_bus.publish("anything", b"", headers={"Nats-Trace-Dest": "spy"})
    await until(lambda: heard)

    assert heard == ["spy"]  # who is inside the wall is traced there
    assert await held() == before
