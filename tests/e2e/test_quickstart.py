"""docs/quickstart.md, block by block as it stands, on the shared cluster."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent_sandbox.embedded.folder import Folder

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "quickstart.md").read_text()
BLOCKS = re.findall(r"^## ([^\n]+)\n.*?^```(\w+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def run(words: list[str], embedded: Folder, **more: str) -> str:
    """Run a program as somebody does who has done the first block; return what it prints."""
    programs = Path(sys.executable).parent
    environ = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "AGENT_SANDBOX_STATE": str(embedded.path),
        **more,
    }
    done = subprocess.run(
        words, env=environ, capture_output=True, text=True, timeout=50, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def block(name: str) -> str:
    """Return one quick start."""
    return next(text for title, _, text in BLOCKS if title == name)


def test_there_are_four_and_each_is_run_here() -> None:
    """A fifth needs a test; the first block, which starts the cluster, is run by tests/docs/test_commands.py."""
    assert [(title, kind) for title, kind, _ in BLOCKS] == [
        ("The command line", "sh"),
        ("The Python package", "python"),
        ("curl", "sh"),
        ("Nothing but a NATS client", "python"),
    ]
    assert PAGE.count("\n```sh") + PAGE.count("\n```python") == len(BLOCKS) + 1


def test_the_command_line(embedded: Folder) -> None:
    """Output streams, variables and files stay, tasks are listed."""
    said = run(["sh", "-euc", block("The command line")], embedded)

    lines = said.splitlines()
    assert lines[:2] == ["hello from a sandbox", "42"]
    assert re.fullmatch(r".*\d\d:\d\d:\d\d.*", lines[2])
    assert lines[3].split()[:2] == ["task", "state"]
    assert lines[-1] == "closed"


def test_the_python_package(embedded: Folder) -> None:
    """As a program of its own."""
    said = run([sys.executable, "-c", block("The Python package")], embedded)

    assert re.fullmatch(r"42\n first instruction after \d+\.\d+ s\n'2'\n\n", said)


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_curl(embedded: Folder) -> None:
    """Through a gateway: each create tells its time to interactive, output comes as events, files as bytes."""
    said = run(["bash", "-euc", block("curl")], embedded)

    assert said.count('"tti":{"tti_ms":') >= 3
    assert said.count('"stdout":{"text":"42\\n"') == 2
    assert "\nhello\n" in said
    assert "event: started" in said
    assert "event: result" in said
    assert '"kind":"close"' in said


def test_nothing_but_a_nats_client(embedded: Folder) -> None:
    """In the shell that took the variables of `agent-sandbox env`, and with no line of ours."""
    program = block("Nothing but a NATS client")

    said = run(
        ["bash", "-euc", 'eval "$(agent-sandbox env)"; python -c "$0"', program],
        embedded,
    )

    assert "agent_sandbox" not in program
    assert re.fullmatch(r'accepted: \{"stream":.*\}\nok 42\n\n', said)


def test_what_env_prints_is_a_shells(embedded: Folder) -> None:
    """Every value is one word, whatever it holds."""
    said = run(
        ["sh", "-euc", 'eval "$(agent-sandbox env)"; printf "%s\\n" "$TOKEN_FILE"'], embedded
    )

    assert Path(said.strip()) == embedded.token_file
    with pytest.raises(AssertionError, match="not_found"):
        run(["agent-sandbox", "env", "--state", str(embedded.path / "logs")], embedded)
