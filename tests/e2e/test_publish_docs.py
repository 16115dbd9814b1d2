"""docs/publish.md and examples/bare are run as they stand.

The `nats` program itself is not part of the test environment: a script of that name takes its place, which understands
the options that the document uses and does the same over the same protocol.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent_sandbox.embedded.folder import Folder
from shared import subjects

ROOT = Path(__file__).parents[2]
STAND_IN = """#!{python}
import argparse, asyncio, sys
import nats, nats.errors

parser = argparse.ArgumentParser()
for option in ("--server", "--creds", "--inbox-prefix"):
    parser.add_argument(option, required=True)
parser.add_argument("verb", choices=["request", "pub"])
parser.add_argument("subject")
parser.add_argument("--header", action="append", default=[])
parser.add_argument("--raw", action="store_true")
parser.add_argument("body")


async def main(args):
    nc = await nats.connect(args.server, user_credentials=args.creds, inbox_prefix=args.inbox_prefix)
    headers = dict(line.split(":", 1) for line in args.header) or None
    if args.verb == "pub":
        await nc.publish(args.subject, args.body.encode(), headers=headers)
    else:
        answer = await nc.request(args.subject, args.body.encode(), timeout=2, headers=headers)
        sys.stdout.write(answer.data.decode() + chr(10))
    await nc.close()


asyncio.run(main(parser.parse_args()))
"""


@pytest.fixture
def access(embedded: Folder, tmp_path: Path) -> dict[str, str]:
    """The environment that the document asks for, with the stand-in on the PATH."""
    program = tmp_path / "bin" / "nats"
    program.parent.mkdir()
    program.write_text(STAND_IN.replace("{python}", sys.executable))
    program.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "SERVER": embedded.read().servers[0],
        "CREDENTIAL": str(embedded.client_credential),
    }


def test_the_documented_commands_publish_a_task_and_read_its_result(
    access: dict[str, str],
) -> None:
    """The shell block of docs/publish.md, word for word."""
    (block,) = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "publish.md").read_text(), re.DOTALL)

    done = subprocess.run(
        ["sh", "-eu", "-c", block],
        env=access,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]

    assert done.returncode == 0, done.stderr
    assert lines[0]["seq"] > 0
    assert (lines[-1]["status"], lines[-1]["stdout"]["text"]) == ("ok", "42\n")


def test_ten_lines_of_a_bare_client_do_the_same(access: dict[str, str]) -> None:
    """examples/bare/publish.py imports nothing of ours."""
    program = ROOT / "examples" / "bare" / "publish.py"

    done = subprocess.run(
        [sys.executable, program, access["SERVER"], access["CREDENTIAL"]],
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "result: ok 0 42\n" in done.stdout
    assert not re.search(r"^\s*(from|import) (shared|agent_sandbox)", program.read_text(), re.M)


def test_a_bare_client_gives_a_task_a_large_input(access: dict[str, str], tmp_path: Path) -> None:
    """examples/bare/large_input.py: chunks, reference, digest, and nothing of ours."""
    program = ROOT / "examples" / "bare" / "large_input.py"
    local = tmp_path / "local"
    local.write_bytes(os.urandom(900_000))

    done = subprocess.run(
        [sys.executable, program, access["SERVER"], access["CREDENTIAL"], local],
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == "result: ok True\n"
    assert not re.search(r"^\s*(from|import) (shared|agent_sandbox)", program.read_text(), re.M)


def test_every_subject_in_the_document_is_the_code_s(embedded: Folder) -> None:
    """The subjects that the document names are those that the contract builds."""
    text = (ROOT / "docs" / "publish.md").read_text()

    for subject in (
        subjects.task("<tenant>", "<pool>", "<class>"),
        subjects.session_task("<tenant>", "<session>", "<task>"),
        subjects.result("<tenant>", "<session>", "<task>"),
        subjects.done("<tenant>", "<session>", "<task>"),
        subjects.output("<tenant>", "<session>", "<task>"),
        subjects.cancel("<tenant>", "<session>", "<task>"),
        subjects.ask("<tenant>", "sessions"),
        subjects.ask("<tenant>", "object_drop"),
        subjects.object_chunk("<tenant>", "<object>", 0).replace("0", "<n mod 3>", 1)[:-1] + "<n>",
        subjects.read_chunk("<tenant>", "<object>", 0).replace("0", "<n mod 3>", 1)[:-1] + "<n>",
    ):
        assert subject in text


def test_the_documented_client_runs_as_it_stands(embedded: Folder) -> None:
    """The Python block of docs/cli.md, word for word."""
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "cli.md").read_text(), re.DOTALL)

    done = subprocess.run(
        [sys.executable, "-c", block],
        env={**os.environ, "AGENT_SANDBOX_STATE": str(embedded.path)},
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "42"
    assert done.stdout.splitlines()[-4:] == [
        "stdout 0 b'1\\n'",
        "stdout 2 b'2\\n'",
        "stdout 4 b'3\\n'",
        "ok",
    ]
