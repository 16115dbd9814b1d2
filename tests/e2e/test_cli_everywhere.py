"""Every command of the command line, found by walking it: help, JSON of a documented shape, narrow terminals, pipes."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
import pytest
from click.testing import CliRunner
from tests.e2e.conftest import PROGRAM

from agent_sandbox import Client
from agent_sandbox.cli.root import leaves, root
from agent_sandbox.cli.shapes import SHAPES, WITHOUT_JSON, Failure
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.over_nats import NatsTransport
from shared import headers, subjects
from shared.testing.look import until

COMMANDS = dict(leaves(root))
PROGRAMS = {"chaos", "lab"}
"""Commands that are programs of their own."""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_that_fits_a_terminal(name: str) -> None:
    """Each option says what it does."""
    code, output = help_of(name)

    assert code == 0
    assert max(len(line) for line in output.splitlines()) <= 80
    options = [each for each in COMMANDS[name].params if isinstance(each, click.Option)]
    assert [each.name for each in options if not each.help and each.name != "limit"] == []
    assert ("--json" in output) == (name not in WITHOUT_JSON)


def help_of(name: str) -> tuple[int, str]:
    """Return the exit code and the words of a command's help."""
    if name in PROGRAMS:  # not called in here: it takes this process's place
        environ = {**os.environ, "COLUMNS": "80"}
        words = [PROGRAM, name, "--help"]
        ended = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
        return ended.returncode, ended.stdout
    done = CliRunner().invoke(root, [*name.split(), "--help"], terminal_width=80)
    return done.exit_code, done.output


class Things(NamedTuple):
    """What commands are tried on."""

    session: str
    task: str
    letter: int
    local: Path


@pytest.fixture
async def things(client: Client, tmp_path: Path) -> Things:
    """A session with a file and a snapshot that has a name, and a dead letter."""
    made = await client.create_session(files={"note.txt": "kept"})
    assert isinstance(client.transport, NatsTransport)
    name = str(uuid.uuid4())
    await client.transport.bus.publish_acked(
        subjects.task("default", "default", "interactive"),
        b'{"kind": "command", "argv": ["true"]}',
        message_id=name,
        headers={headers.REPLAY_OF: "no id"},
    )

    async def letter() -> int | None:
        page = await client.dead_letters.list()
        return next((row.number for row in page.letters if row.letter.task == name), None)

    local = tmp_path / "local.txt"
    local.write_text("text")
    await made.name_snapshot((await made.snapshots())[0].id, "first")
    return Things(made.id, made.id, await until(letter), local)


Call = Callable[[Things], list[str]]
CALLS: dict[str, Call] = {
    "up": lambda _: [],
    "status": lambda _: [],
    "doctor": lambda _: [],
    "env": lambda _: [],
    "run": lambda _: ["--", "true"],
    "session create": lambda _: [],
    "session exec": lambda t: [t.session, "--", "true"],
    "session python": lambda t: [t.session, "-c", "1"],
    "session list": lambda _: [],
    "session show": lambda t: [t.session],
    "session write": lambda t: [t.session, f"{t.local}:w.txt"],
    "session read": lambda t: [t.session, "note.txt"],
    "session ls": lambda t: [t.session],
    "session put": lambda t: [t.session, str(t.local), "put.txt"],
    "session get": lambda t: [t.session, "note.txt", str(t.local)],
    "session upload": lambda t: [t.session, str(t.local.parent), "tree"],
    "session download": lambda t: [t.session, "tree", str(t.local.parent / "back")],
    "session rm": lambda t: [t.session, "w.txt"],
    "session snapshots": lambda t: [t.session],
    "session name": lambda t: [t.session, "first", "good"],
    "session diff": lambda t: [t.session, "good"],
    "session fork": lambda t: [t.session],
    "session rollback": lambda t: [t.session, "good"],
    "session hibernate": lambda t: [t.session],
    "session resume": lambda t: [t.session],
    "task list": lambda t: [t.session],
    "task show": lambda t: [t.task],
    "task cancel": lambda t: [t.task],
    "logs": lambda t: [t.task],
    "pool list": lambda _: [],
    "pool show": lambda _: ["default"],
    "tti": lambda _: ["-n", "1"],
    "deadletter list": lambda _: [],
    "deadletter show": lambda t: [str(t.letter)],
    "deadletter replay": lambda t: [str(t.letter), "--detach"],
    "deadletter drop": lambda t: [str(t.letter)],
    "session close": lambda t: [t.session],
    "workspace verify": lambda _: [],
}
"""Command -> its words; in an order in which one leaves what the next needs."""
A_LINE_FOR_EACH = {"logs"}
"""Commands that print more than one object."""
ELSEWHERE = {
    "down": "tests/e2e/test_up_down.py",
    "pool explain": "tests/e2e/test_promises.py",
    "pool simulate": "tests/e2e/test_promises.py",
    "pool backtest": "tests/e2e/test_promises.py",
    "k8s doctor": "sdk/tests/test_cluster_doctor.py",
}
"""Commands whose JSON is checked in another file: they end the cluster, or look at another one."""


def without_nulls(value: Any) -> Any:
    """Return plain data without what is null: a field that is null and one that is not there say the same."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def undocumented(text: str, kinds: tuple[Any, ...]) -> str:
    """Return why a text is none of these shapes; empty: it is one, and holds no field that the shape does not name."""
    told = json.loads(text)
    reasons = []
    for kind in kinds:
        try:
            read = msgspec.json.decode(text, type=kind)
        except msgspec.ValidationError as exc:
            reasons.append(f"{kind.__name__}: {exc}")
            continue
        again = json.loads(msgspec.json.encode(read))
        extra = {key for key in without_nulls(told) if key not in without_nulls(again)}
        if without_nulls(again) == without_nulls(told):
            return ""
        reasons.append(f"{kind.__name__}: unknown {sorted(extra) or 'fields within'}")
    return "; ".join(reasons)


def test_a_shape_is_checked_to_the_last_field() -> None:
    """The check itself: an unknown field, a missing one, and one that is null."""
    good = '{"error": {"code": "a", "message": "b", "definite": true}}'
    assert undocumented(good, (Failure,)) == ""
    assert "extra" in undocumented(good[:-1] + ', "extra": 1}', (Failure,))
    assert "code" in undocumented('{"error": {"message": "b"}}', (Failure,))
    assert undocumented(good[:-1] + ', "x": null}', (Failure,)) == ""


def invoke(words: list[str], state: Path, columns: int = 200) -> Any:
    """Run a command in this process."""
    environ = {"AGENT_SANDBOX_STATE": str(state), "COLUMNS": str(columns), "NO_COLOR": "1"}
    return CliRunner(env=environ).invoke(root, words)


@pytest.mark.parametrize("way", ["nats", "http"])
def test_every_command_speaks_json_of_its_shape(embedded: Folder, things: Things, way: str) -> None:
    """One object, one line, nothing else on stdout; through a gateway as well as straight."""
    assert {*CALLS, *ELSEWHERE, *WITHOUT_JSON} == set(COMMANDS)
    server = ["--server", embedded.read().gateways[0]]
    wrong = {}
    for name, words in CALLS.items():
        goes_anywhere = any("--server" in each.opts for each in COMMANDS[name].params)
        if way == "http" and not goes_anywhere:
            continue
        by = server if way == "http" else []
        done = invoke([*name.split(), "--json", *by, *words(things)], embedded.path)
        lines = done.stdout.splitlines()
        if not lines or (len(lines) > 1 and name not in A_LINE_FOR_EACH):
            wrong[name] = done.output + repr(done.exception)
        elif reason := "; ".join(filter(None, (undocumented(x, SHAPES[name]) for x in lines))):
            wrong[name] = reason
    assert wrong == {}


LOOKS = [
    "status", "doctor", "session list", "session show", "task list", "task show", "pool list", "pool show",
    "deadletter list", "deadletter show",
]  # fmt: skip
"""Commands that print tables and facts for people."""


@pytest.mark.parametrize("columns", [40, 80])
def test_nothing_is_wider_than_a_narrow_terminal(
    embedded: Folder, things: Things, columns: int
) -> None:
    """Ids stay whole all the same, to be copied; only a word that fits no line is longer."""
    for name in LOOKS:
        done = invoke([*name.split(), *CALLS[name](things)], embedded.path, columns)
        assert done.exit_code == 0, done.output
        too_wide = [
            line
            for line in done.stdout.splitlines()
            if len(line.rstrip()) > columns and " " in line.strip()
        ]
        assert too_wide == [], name
        if name in ("session list", "session show", "task list"):
            assert things.session in done.stdout, name
        assert "\x1b" not in done.stdout, name
