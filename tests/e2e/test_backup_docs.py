"""The commands of docs/running.md, run as they stand there: a backup is taken, and brings everything back."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/running.md"
Shell = Callable[[str], str]


@pytest.fixture
def shell(place: Path, tmp_path: Path) -> Iterator[Shell]:
    """Run a shell's block as somebody does who has a cluster in a state folder of his own; it ends with the test."""
    state = place / tmp_path.name
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "AGENT_SANDBOX_STATE": str(state),
    }

    def run(block: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            env=environ,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    yield run
    if state.exists():
        run("agent-sandbox down")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_what_a_backup_holds_is_there_again(shell: Shell) -> None:
    """The session goes on, with its files as they were then; what came later is gone."""
    backup, restore = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    shell("agent-sandbox up")
    session = shell("agent-sandbox session create").strip()
    shell(f"agent-sandbox session exec {session} -- sh -c 'echo before > file'")
    shell(backup)
    shell(f"agent-sandbox session exec {session} -- sh -c 'cat file; echo after > file'")

    shell(restore)  # its last command fails where anything is damaged

    assert shell(f"agent-sandbox session exec {session} -- cat file") == "before\n"
