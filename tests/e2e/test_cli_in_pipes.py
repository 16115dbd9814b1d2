"""The command line on a coloured terminal, in a pipe, and as a shell's helper."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from agent_sandbox import Client
from agent_sandbox.embedded.folder import Folder

PROGRAM = Path(sys.executable).parent / "agent-sandbox"


@pytest.fixture
async def session(client: Client) -> str:
    """An open session's id."""
    return (await client.create_session()).id


def on_a_terminal(words: list[str], state: Path, **more: str) -> str:
    """Return what a command writes to a terminal."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    environ = {**os.environ, "AGENT_SANDBOX_STATE": str(state), "TERM": "xterm-256color", **more}
    environ.pop("COLUMNS", None)
    with subprocess.Popen(
        [PROGRAM, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=environ
    ) as process:
        os.close(theirs)
        said = b""
        while piece := _read(ours):
            said += piece
        assert process.wait(timeout=30) == 0
    os.close(ours)
    return said.decode()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other end is closed
        return b""


def test_colours_are_for_terminals_and_can_be_switched_off(embedded: Folder, session: str) -> None:
    """By NO_COLOR, and by a pipe."""
    words = ["session", "list"]

    coloured = on_a_terminal(words, embedded.path)
    without = on_a_terminal(words, embedded.path, NO_COLOR="1")
    piped = subprocess.run(
        [PROGRAM, *words],
        env={**os.environ, "AGENT_SANDBOX_STATE": str(embedded.path), "TERM": "xterm-256color"},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )

    assert "\x1b[1m" in coloured
    assert "\x1b" not in without
    assert "\x1b" not in piped.stdout + piped.stderr
    assert session in without
    assert session in piped.stdout


def test_a_folder_s_way_is_shown_by_a_bar_until_all_of_it_is_there(
    embedded: Folder, session: str, tmp_path: Path
) -> None:
    """In and out; by what is done, and by how much there is in all."""
    local = tmp_path / "local"
    local.mkdir()
    (local / "data").write_bytes(os.urandom(3 << 20))

    into = on_a_terminal(["session", "upload", session, str(local), "in"], embedded.path)
    out = on_a_terminal(["session", "download", session, "in", f"{tmp_path}/out"], embedded.path)

    assert "3.0/3.0 MiB" in into
    assert "3.0/3.0 MiB" in out
    assert (tmp_path / "out" / "data").read_bytes() == (local / "data").read_bytes()


def test_a_reader_that_leaves_is_no_traceback(embedded: Folder) -> None:
    """As `head` does."""
    done = subprocess.run(
        ["bash", "-c", '"$0" pool list --json | true; echo "${PIPESTATUS[0]}"', PROGRAM],
        env={**os.environ, "AGENT_SANDBOX_STATE": str(embedded.path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )

    assert done.stderr == ""
    assert done.stdout.strip() in ("0", "1")


def test_a_pool_that_is_not_there_is_named_with_those_that_are(embedded: Folder) -> None:
    """A typo is seen at once."""
    done = subprocess.run(
        [PROGRAM, "pool", "show", "defualt", "--state", str(embedded.path)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.returncode == 125
    assert "no pool 'defualt': there are default, cold, narrow" in done.stderr


@pytest.mark.parametrize(
    ("words", "number", "wanted"),
    [
        ("session show ", 3, ""),
        ("run --pool ", 3, "plain,default plain,cold plain,narrow"),
        ("pool show co", 3, "plain,cold"),
    ],
)
def test_names_of_the_cluster_are_completed(
    embedded: Folder, session: str, words: str, number: int, wanted: str
) -> None:
    """Sessions that have not ended, and pools; asked as the shell asks."""
    done = subprocess.run(
        [PROGRAM],
        env={
            **os.environ,
            "AGENT_SANDBOX_STATE": str(embedded.path),
            "_AGENT_SANDBOX_COMPLETE": "bash_complete",
            "COMP_WORDS": f"agent-sandbox {words}",
            "COMP_CWORD": str(number),
        },
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )

    offered = done.stdout.split()
    if wanted:
        assert offered == wanted.split()
    else:
        assert f"plain,{session}" in offered
