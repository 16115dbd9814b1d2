"""Subjects and headers that no client of ours makes, over a bare connection: what becomes of them; all else goes on."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import nats
import nats.errors
import pytest

from agent_sandbox import Client
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.procs import ProcessId
from agent_sandbox.embedded.table import read_table
from shared import limits
from shared.bus import Bus
from shared.ids import task_id_of_delivery
from shared.testing.look import until

BODY = b'{"kind": "command", "argv": ["true"]}'
NO_TEXT = b"\xff\xfe" * 5
LONG = b"x" * 3900
"""A line of the protocol has at most 4096 bytes."""
STREAMS = [f"{kind}{shard}" for kind in ("I", "O") for shard in range(3)]
"""Streams into which clients alone publish, under names of their own."""


@asynccontextmanager
async def connected(folder: Folder) -> AsyncIterator[Any]:
    """Connect as a client does, by a library that is not ours; once cut, it stays away."""
    connection: Any = await nats.connect(
        list(folder.read().servers),
        user_credentials=str(folder.client_credential),
        inbox_prefix=b"_INBOX_c-default",
        allow_reconnect=False,
    )
    try:
        yield connection
    finally:
        await connection.close()


def processes(folder: Folder) -> dict[str, ProcessId | None]:
    """Return which process runs under each name."""
    table = read_table(folder)
    assert table is not None
    return {row.name: row.process for row in table.rows}


@pytest.fixture(autouse=True)
def _nobody_dies(embedded: Folder) -> Iterator[None]:
    """Fail if a service has another process at the end than at the beginning."""
    before = processes(embedded)
    yield
    assert processes(embedded) == before


def ways(strange: bytes, session: str) -> list[bytes]:
    """Return the subjects of all ways by which a client reaches something, with something strange in each place."""
    good, known = uuid.uuid4().hex.encode(), session.encode()
    return [
        b"task.default.%b.interactive" % strange,
        b"task.default.default.%b" % strange,
        b"session.default.%b.%b" % (strange, good),
        b"session.default.%b.%b" % (known, strange),
        b"result.default.%b.%b" % (strange, good),
        b"cancel.default.%b.%b" % (strange, good),
        b"cancel.default.%b.%b" % (known, strange),
        b"object.1.default.%b.0" % strange,
        b"chunk.1.default.%b.0" % strange,
        b"ask.default.%b" % strange,
    ]


async def say(bare: Any, subject: bytes, *lines: bytes) -> Any:
    """Ask under a subject that no library looks at; return the answer, None: there was none."""
    inbox = bare.new_inbox()
    heard = await bare.subscribe(inbox)
    await bare.flush()
    block = b"NATS/1.0\r\n%b\r\n" % b"".join(line + b"\r\n" for line in lines)
    sizes = (subject, inbox.encode(), len(block), len(block) + len(BODY))
    bare._transport.write(b"HPUB %b %b %d %d\r\n%b%b\r\n" % (*sizes, block, BODY))
    try:
        return await heard.next_msg(timeout=3)
    except nats.errors.TimeoutError:
        return None


async def stored(truth: Bus) -> list[int]:
    """Return the last sequence of each of these streams: what is stored raises it, what is removed does not."""
    return [(await truth.js_api(f"STREAM.INFO.{name}"))["state"]["last_seq"] for name in STREAMS]


@pytest.mark.parametrize("strange", [NO_TEXT, LONG * 2], ids=["no text", "too long a line"])
async def test_a_subject_that_nobody_could_repeat_costs_its_sender_the_connection(
    embedded: Folder, client: Client, truth: Bus, strange: bytes
) -> None:
    """On each way. Nothing is stored: no result could be named after it, and it would lie there for ever."""
    async with await client.create_session() as session:
        before = await stored(truth)
        for way in ways(strange, session.id):
            async with connected(embedded) as bare:
                bare._transport.write(b"PUB %b %d\r\n%b\r\n" % (way, len(BODY), BODY))
                await until(lambda one=bare: one.is_closed, within_s=5)
        after = await stored(truth)

        assert after == before
        assert (await session.exec(["true"])).ok


async def test_a_long_name_is_refused_or_its_task_is_a_dead_letter(
    embedded: Folder, client: Client
) -> None:
    """As long as a subject can be: whoever asked is told what is wrong, and what was accepted does not lie there."""
    async with await client.create_session() as session, connected(embedded) as bare:
        answers = [await say(bare, way) for way in ways(LONG, session.id)]
        pool, klass, unknown, known, result, *cancels = answers[:7]

        assert pool.headers["Status"] == "503"
        assert klass is None
        assert "permissions violation" in str(bare.last_error)
        assert json.loads(unknown.data)["stream"]
        assert json.loads(known.data)["stream"]
        assert result.headers["Status"] == "404"
        for answer in cancels:
            assert json.loads(answer.data)["error"]["code"] == "invalid_message"
        assert json.loads(answers[-1].data)["error"]["code"] == "not_found"
        assert (await session.exec(["true"])).ok

        async def buried() -> bool:
            page = await client.dead_letters.list(limit=limits.ASK_ITEMS_MAX)
            letters = [row.letter for row in page.letters]
            return any(one.session.startswith("xxx") for one in letters) and any(
                one.session == session.id and one.task.startswith("xxx") for one in letters
            )

        await until(buried, within_s=25)


HEADERS = {
    b"Nats-Msg-Id: %b" % NO_TEXT: ("rejected", "Nats-Msg-Id"),
    b"Agent-Class: %b" % NO_TEXT: ("ok", ""),  # a first task's class stands in its subject
    b"Agent-Replay-Of: %b" % NO_TEXT: ("rejected", "Agent-Replay-Of"),
    b"X-%b: %b" % (NO_TEXT, NO_TEXT): ("ok", ""),
    b"traceparent: %b" % NO_TEXT: ("ok", ""),
}


@pytest.mark.parametrize("header", HEADERS, ids=["id", "class", "replay", "strange", "trace"])
async def test_a_header_that_is_no_text_is_named_or_passed_over(
    embedded: Folder, client: Client, header: bytes
) -> None:
    """One of ours is refused by its name in the task's result; others are nobody's affair."""
    status, named = HEADERS[header]
    task = uuid.uuid4().hex
    lines = [header] if named == "Nats-Msg-Id" else [header, b"Nats-Msg-Id: %b" % task.encode()]
    async with connected(embedded) as bare:
        ack = json.loads((await say(bare, b"task.default.default.interactive", *lines)).data)
    if named == "Nats-Msg-Id":
        task = task_id_of_delivery(int(ack["stream"].removeprefix("Q")), ack["seq"])

    result = await until(lambda: client.read_result(task), within_s=15)

    assert result.status == status
    if named:
        assert result.raw.error.definite
        assert named in result.raw.error.message
