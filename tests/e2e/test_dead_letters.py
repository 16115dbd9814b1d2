"""Messages that cannot become a task: each gets a result and a dead letter, both naming field and limit."""

from __future__ import annotations

import json
import secrets
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest

from agent_sandbox import Client, Forbidden, InvalidMessage, NotFound
from agent_sandbox.over_nats import NatsTransport
from agent_sandbox.running import RunningTask
from shared import headers, limits, messages, subjects
from shared.ids import task_id_of_delivery
from shared.messages import TaskResult
from shared.testing.look import until
from shared.views import LetterRow

OK = b'{"kind": "command", "argv": ["true"]}'


class Wrong(NamedTuple):
    """A message that is wrong in one way, and what is said of it."""

    said: tuple[str, ...]
    body: bytes = OK
    message_id: str | None = None
    fields: dict[str, str] = {}  # noqa: RUF012 - never changed


def oversized() -> bytes:
    """Return a body that the queue takes, since it leaves room for headers, and no task may have."""
    return json.dumps({"kind": "python", "code": "#" * limits.BODY_BYTES_MAX}).encode()


BODIES: dict[str, Callable[[], Wrong]] = {
    "bad JSON": lambda: Wrong(("malformed",), b"{nope"),
    "nothing": lambda: Wrong(("body",), b""),
    "not UTF-8": lambda: Wrong(("body",), b'{"kind": "python", "code": "\xff"}'),
    "no object": lambda: Wrong(("`object`",), b"[1]"),
    "version": lambda: Wrong(("v:", "1 to 1"), b'{"v": 9, "kind": "open"}'),
    "no kind": lambda: Wrong(("`kind`",), b"{}"),
    "unknown kind": lambda: Wrong(("$.kind", "dance"), b'{"kind": "dance"}'),
    "limit": lambda: Wrong(
        ("$.timeout_s", str(limits.TIMEOUT_S_MAX)), b'{"kind": "open", "timeout_s": 1e9}'
    ),
    "path": lambda: Wrong(
        ("$.path", str(limits.PATH_LENGTH_MAX)),
        json.dumps({"kind": "read", "path": "p" * (limits.PATH_LENGTH_MAX + 1)}).encode(),
    ),
    "number": lambda: Wrong(
        ("$.timeout_s",), b'{"kind": "open", "timeout_s": ' + b"9" * 5000 + b"}"
    ),
    "nesting": lambda: Wrong(("body",), b'{"kind": "open", "x": ' + b"[" * 100_000),
    "too large": lambda: Wrong(("body", str(limits.BODY_BYTES_MAX)), oversized()),
    "exclusive": lambda: Wrong(("argv and shell",), b'{"kind": "command"}'),
}
HEADERS: dict[str, Callable[[], Wrong]] = {
    "short id": lambda: Wrong(("Nats-Msg-Id", "8 to 64"), message_id=secrets.token_hex(3)),
    "odd id": lambda: Wrong(("Nats-Msg-Id", "8 to 64"), message_id=f"{uuid.uuid4()}.*"),
    "token": lambda: Wrong(("Agent-Token",), fields={headers.TOKEN: str(uuid.uuid4())}),
    "replay": lambda: Wrong(("Agent-Replay-Of", "8 to 64"), fields={headers.REPLAY_OF: "no id"}),
}
ENTRIES: dict[str, Callable[[], Wrong]] = {
    "task token": lambda: Wrong(("subject", "8 to 64")),
    "other id": lambda: Wrong(("Nats-Msg-Id",), message_id=str(uuid.uuid4())),
    "class": lambda: Wrong(("Agent-Class", "batch"), fields={headers.CLASS: "recovery"}),
    "bad JSON": lambda: Wrong(("malformed",), b"{nope"),
}


async def letter_of(client: Client, task: str) -> LetterRow | None:
    """Return the dead letter of a task."""
    page = await client.dead_letters.list(limit=limits.ASK_ITEMS_MAX)
    found = [row for row in page.letters if row.letter.task == task]
    assert len(found) <= 1, "one letter for one task"
    return found[0] if found else None


async def ends(client: Client, session: str, task: str) -> TaskResult:
    """Wait for a task's result, whatever its id."""
    body: bytes = await until(
        lambda: client.bus.read_result("default", session, task), within_s=20.0
    )
    return messages.decode(body, TaskResult)


async def assert_refused(client: Client, wrong: Wrong, session: str, task: str) -> LetterRow:
    """Check result and letter of a message that was wrong; return the letter."""
    raw = await ends(client, session, task)
    assert (raw.status, raw.reason) == ("rejected", "invalid")
    assert raw.error is not None
    assert raw.error.definite
    row = await letter_of(client, task)
    assert row is not None, "the letter is there before the result"
    assert row.letter.error == raw.error
    for words in wrong.said:
        assert words in raw.error.message
    return row


@pytest.mark.parametrize("name", [*BODIES, *HEADERS])
async def test_a_first_task_that_is_wrong(client: Client, name: str) -> None:
    """Its result is found under the id that its publisher knows: its own, or the one that the PubAck tells."""
    wrong = {**BODIES, **HEADERS}[name]()
    message_id = wrong.message_id or str(uuid.uuid4())
    ack = await client.bus.publish_acked(
        subjects.task("default", "default", "interactive"),
        wrong.body,
        message_id=message_id,
        headers=wrong.fields,
    )
    task = message_id
    if wrong.message_id is not None:
        task = task_id_of_delivery(int(ack.stream.removeprefix("Q")), ack.seq)

    row = await assert_refused(client, wrong, task, task)

    assert row.letter.origin == f"{ack.stream}/{ack.seq}"
    assert row.letter.message_id == (wrong.message_id or "")
    assert (row.letter.pool, row.letter.klass) == ("default", "interactive")
    assert row.letter.size == len(wrong.body)
    kept = (await client.dead_letters.show(row.number)).body
    assert kept == wrong.body[: limits.BODY_BYTES_MAX]
    assert row.letter.truncated == (len(kept) < len(wrong.body))


async def test_wrong_tasks_of_a_session_do_it_no_harm(client: Client) -> None:
    """Each is refused by itself, and the next one runs in the same sandbox."""
    async with await client.create_session(files={"kept.txt": "kept"}) as session:
        tasks: dict[str, tuple[Wrong, str]] = {}
        for number, (name, make) in enumerate(ENTRIES.items()):
            wrong, task = make(), "x" if name == "task token" else f"task-{number:04d}"
            await client.bus.publish_acked(
                subjects.session_task("default", session.id, task),
                wrong.body,
                message_id=wrong.message_id or f"{session.id}:{task}",
                headers=wrong.fields,
            )
            tasks[name] = (wrong, task)

        for wrong, task in tasks.values():
            row = await assert_refused(client, wrong, session.id, task)
            assert row.letter.session == session.id
            assert row.letter.origin.startswith("I")
        assert await session.read("kept.txt") == b"kept"


# --- list, show, replay, drop ----------------------------------------------------------------------------------------


@pytest.fixture
async def letter(client: Client) -> LetterRow:
    """A dead letter whose body is good: only its id was not."""
    ack = await client.bus.publish_acked(
        subjects.task("default", "default", "batch"),
        b'{"kind": "python", "code": "print(6 * 7)"}',
        message_id=secrets.token_hex(3),
    )
    task = task_id_of_delivery(int(ack.stream.removeprefix("Q")), ack.seq)
    await ends(client, task, task)
    row = await letter_of(client, task)
    assert row is not None
    return row


async def test_a_replay_has_a_new_id_and_says_of_what_it_is_one(
    client: Client, letter: LetterRow
) -> None:
    """In its result, and in its session's record; the letter stays."""
    task: RunningTask = await client.dead_letters.replay(letter.number)
    result = await task.result()

    assert result.check().stdout == "42\n"
    assert result.task_id != letter.letter.task
    assert result.raw.replay_of == letter.letter.task
    record = (await client.session(result.session_id).show()).record
    assert record is not None
    assert (record.replay_of, record.client_lane) == (letter.letter.task, "batch")
    assert (await client.dead_letters.show(letter.number)).row == letter


async def test_a_replay_of_what_is_still_wrong_is_refused_before_the_publish(
    client: Client,
) -> None:
    """It would only become a dead letter again."""
    task = str(uuid.uuid4())
    await client.bus.publish_acked(
        subjects.task("default", "default", "interactive"), b'{"kind": "dance"}', message_id=task
    )
    await ends(client, task, task)
    row = await letter_of(client, task)
    assert row is not None

    with pytest.raises(InvalidMessage, match=r"\$\.kind"):
        await client.dead_letters.replay(row.number)


async def test_a_later_task_is_replayed_in_its_own_session_or_a_new_one(client: Client) -> None:
    """As asked; its own session takes it as any other task."""
    async with await client.create_session(files={"a.txt": "a"}) as session:
        await client.bus.publish_acked(
            subjects.session_task("default", session.id, "y"),
            b'{"kind": "read", "path": "a.txt"}',
            message_id="y",
        )
        await ends(client, session.id, "y")
        row = await letter_of(client, "y")
        assert row is not None

        inside = await (await client.dead_letters.replay(row.number)).result()
        outside = await (await client.dead_letters.replay(row.number, new_session=True)).result()
        await client.dead_letters.drop(row.number)

    assert (inside.session_id, inside.data) == (session.id, b"a")
    assert (outside.session_id, outside.reason) == (outside.task_id, "file")


async def test_pages_go_from_the_newest_to_the_oldest(client: Client, letter: LetterRow) -> None:
    """Every letter is on one page only."""
    everything = (await client.dead_letters.list(limit=limits.ASK_ITEMS_MAX)).letters
    numbers: list[int] = []
    page = await client.dead_letters.list(limit=2)
    while True:
        numbers += [row.number for row in page.letters]
        if page.next is None:
            break
        page = await client.dead_letters.list(limit=2, before=page.next)

    assert numbers == sorted((row.number for row in everything), reverse=True)
    assert numbers[0] >= letter.number


async def test_a_client_may_not_ask_for_another_tenant_s(client: Client) -> None:
    """The servers refuse the question."""
    other = Client(msgspec.structs.replace(client.options, tenant="other"))
    other._transport = NatsTransport(client.bus, "other")

    with pytest.raises(Forbidden):
        await other.dead_letters.list()


def test_the_command_line_lists_shows_replays_and_drops(cli: Any, letter: LetterRow) -> None:
    """In words and as JSON; what is gone is said, with an exit code."""
    number = str(letter.number)

    listed = cli("deadletter", "list", "--json")
    table = cli("deadletter", "list", "--limit", "1")
    shown = cli("deadletter", "show", number)
    body = cli("deadletter", "show", number, "--body")
    replayed = cli("deadletter", "replay", number, "-v")
    detached = cli("deadletter", "replay", number, "--detach", "--json")
    dropped = cli("deadletter", "drop", number)
    again = cli("deadletter", "drop", number, "--json")
    gone = cli("deadletter", "show", number, "--json")

    rows = json.loads(listed.stdout)["letters"]
    assert letter.number in [row["number"] for row in rows]
    assert "number" in table.stdout
    assert "--before" in table.stderr or len(rows) == 1
    assert "header Nats-Msg-Id" in shown.stdout
    assert letter.letter.origin in shown.stdout
    assert '"code": "print(6 * 7)"' in body.stdout
    assert (replayed.returncode, replayed.stdout) == (0, "42\n")
    assert set(json.loads(detached.stdout)) == {"task", "session"}
    assert (dropped.stdout, dropped.returncode) == ("dropped\n", 0)
    assert json.loads(again.stdout) == {"dropped": False}
    assert gone.returncode == 125
    assert json.loads(gone.stdout)["error"]["code"] == "not_found"


async def test_a_letter_that_is_not_there_is_not_found(client: Client) -> None:
    """Replaying it is refused as well."""
    with pytest.raises(NotFound, match="no dead letter 987654321"):
        await client.dead_letters.replay(987_654_321)
