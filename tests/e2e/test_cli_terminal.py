"""`session attach` as a person uses it: in a window, which is a real terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_sandbox.demo.victims import find_worker
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.table import read_table

PROGRAM = Path(sys.executable).parent / "agent-sandbox"
SEE_S = 20.0
SHELL = ("--", "env", "PS1=> ", "sh", "-i")
Cli = Callable[..., Any]


def _own_window() -> None:
    """Make standard input the terminal that a process belongs to; its end is heard, also in a run under `nohup`."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Window:
    """A terminal of 30 x 90 in which the command runs."""

    def __init__(self, state: Path, *words: str) -> None:
        """Run it."""
        self.ours, self._theirs = pty.openpty()
        self.resize(30, 90)
        self.before = termios.tcgetattr(self._theirs)
        self.seen = b""
        self.process = subprocess.Popen(
            [PROGRAM, "session", "attach", *words],
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            start_new_session=True,
            preexec_fn=_own_window,  # noqa: PLW1509 - no thread runs
            env={**os.environ, "AGENT_SANDBOX_STATE": str(state), "TERM": "xterm"},
        )

    def resize(self, rows: int, cols: int) -> None:
        """Give the window another size."""
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.ours, text.encode())

    def see(self, text: str) -> str:
        """Wait until `text` appears; return all up to its end, and forget it. Each byte is a character."""
        wanted, until = text.encode("latin-1"), time.monotonic() + SEE_S
        while wanted not in self.seen:
            left_s = until - time.monotonic()
            if left_s <= 0 or not select.select([self.ours], [], [], left_s)[0]:
                raise AssertionError(f"{text!r} is not in {self.seen[-2000:]!r}")
            self.seen += os.read(self.ours, 65536)
        upto = self.seen.index(wanted) + len(wanted)
        seen, self.seen = self.seen[:upto], self.seen[upto:]
        return seen.decode("latin-1")

    def ended(self) -> int:
        """Wait for the command's end; return its exit code."""
        return self.process.wait(SEE_S)

    @property
    def is_restored(self) -> bool:
        """Whether the terminal is as it was before the command."""
        return termios.tcgetattr(self._theirs) == self.before

    def close(self) -> None:
        """Close the window."""
        self.process.kill()
        self.process.wait(SEE_S)
        os.close(self.ours)
        os.close(self._theirs)


Open = Callable[..., Window]


@pytest.fixture
def window(embedded: Folder) -> Iterator[Open]:
    """Opens windows on the shared cluster, and closes them after the test."""
    opened: list[Window] = []

    def open_one(*words: str) -> Window:
        opened.append(Window(embedded.path, *words))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture(scope="module")
def session(embedded: Folder) -> Iterator[str]:
    """One session for all windows: each ends what it runs."""

    def run(*words: str) -> str:
        command = [PROGRAM, "session", *words, "--state", str(embedded.path)]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=True
        ).stdout

    made = run("create").strip()
    yield made
    run("close", made)


def test_a_window_is_a_shell_in_the_session(window: Open, session: str, cli: Cli) -> None:
    """ls, ^C of a sleep, sizes, the exit code; the window is as it was afterwards."""
    cli("session", "exec", session, "--", "touch", "notes.txt")
    shell = window(session, *SHELL)
    shell.see("> ")
    assert not shell.is_restored
    shell.type("ls\r")
    shell.see("notes.txt\r\n")
    shell.type("sh -c 'stty size; exec sleep 1000'\r")
    shell.see("30 90\r\n")
    shell.type("\x03")
    shell.see("> ")
    shell.type(
        "sh -c 'trap \"stty size; exit\" WINCH; echo wait''ing; while :; do sleep 0.1; done'\r"
    )
    shell.see("waiting\r\n")
    shell.resize(41, 72)
    shell.see("41 72\r\n")
    shell.type("exit 7\r")

    assert shell.ended() == 7
    assert shell.is_restored


def test_who_detaches_finds_the_same_shell_again(window: Open, session: str) -> None:
    """By the key; the program draws itself anew; by the closing of the window."""
    first = window(session, *SHELL)
    first.see("> ")
    first.type("kept=variable\r")
    first.see("> ")
    first.type("\x1d")
    first.see("comes back")
    assert first.ended() == 0
    assert first.is_restored

    second = window(session)
    second.type("echo $kept-$((1+1))\r")
    second.see("variable-2\r\n")
    os.kill(second.process.pid, signal.SIGHUP)
    assert second.ended() == -signal.SIGHUP

    third = window(session)
    third.type("echo $kept-$((1+2)); exit 3\r")
    third.see("variable-3\r\n")
    assert third.ended() == 3


def test_the_window_is_restored_when_the_worker_dies(
    window: Open, session: str, embedded: Folder, cli: Cli
) -> None:
    """The loss is said in one line, and the exit code is the system's."""
    shell = window(session, *SHELL)
    shell.see("> ")
    table = read_table(embedded)
    assert table is not None
    owner = cli("session", "show", session).stdout
    name = next(word for word in owner.split() if word.startswith("default-"))
    worker = find_worker(embedded, name, table.supervisor.pid)
    assert worker is not None
    assert worker.send(signal.SIGKILL)

    shell.see("agent-sandbox: ")
    assert shell.ended() == 125
    assert shell.is_restored


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        *(pytest.param(n, marks=pytest.mark.slow) for n in (signal.SIGTERM, signal.SIGSEGV)),
    ],
)
def test_the_window_is_restored_when_the_command_itself_dies(
    window: Open, session: str, number: int
) -> None:
    """By whatever; the shell there goes on."""
    shell = window(session, *SHELL)
    shell.see("> ")
    os.kill(shell.process.pid, number)
    assert shell.ended() == -number
    until = time.monotonic() + SEE_S
    while not shell.is_restored:
        assert time.monotonic() < until
        time.sleep(0.01)

    again = window(session)
    again.type("exit 4\r")
    assert again.ended() == 4


def test_control_sequences_go_to_the_window_as_they_are(window: Open, session: str) -> None:
    """They are the user's own business: none is interpreted, none is left out, and their answers are keys."""
    sequences = "\\033[6n\\033]0;title\\007\\033[?1049h\\000\\377"
    shell = window(
        session, "--", "sh", "-c", f"stty raw -echo; printf '{sequences}'; head -c 6 | od -c"
    )
    shell.see("\x1b[6n\x1b]0;title\x07\x1b[?1049h\x00\xff")
    shell.type("\x1b[2;9R")

    shell.see("033   [   2   ;   9   R")
    assert shell.ended() == 0


def test_without_a_terminal_it_says_what_to_use(cli: Cli, session: str) -> None:
    """A pipe has no keys."""
    done = cli("session", "attach", session)

    assert done.returncode == 2
    assert "session exec" in done.stderr


def test_keys_and_tasks_that_do_not_fit_are_refused(window: Open, session: str) -> None:
    """Before anything is published."""
    for words, said in (
        (("--detach-key", "f1"), "ctrl-"),
        (("--task", "some-task", "--new"), "--task goes with"),
    ):
        wrong = window(session, *words)
        wrong.see(said)
        assert wrong.ended() == 2
