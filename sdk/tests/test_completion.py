"""Shell completion, in the shells themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).parent / "agent-sandbox"
ASK = {
    "bash": """
        {load}
        COMP_WORDS=(agent-sandbox {words}); COMP_CWORD={last}
        _agent_sandbox_completion agent-sandbox
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """,
    "zsh": """
        autoload -Uz compinit && compinit -u -D
        {load}
        [[ -n $_comps[agent-sandbox] ]] || exit 9
        _describe() {{ print -l -- ${{(P)3}}; }}
        compadd() {{ print -l -- $@; }}
        words=(agent-sandbox {words}); CURRENT={last}+1
        $_comps[agent-sandbox]
    """,
    "fish": """
        {load}
        complete -C "agent-sandbox {words}"
    """,
}
"""What each shell is told: load it, then complete these words."""
LOAD = {
    "bash": 'eval "$(agent-sandbox completion bash)"',
    "zsh": 'eval "$(agent-sandbox completion zsh)"',
    "fish": "agent-sandbox completion fish | source",
}


@pytest.fixture(params=ASK)
def shell(request: pytest.FixtureRequest) -> str:
    """A shell that is on this machine."""
    if shutil.which(request.param) is None:
        pytest.skip(f"no {request.param} here")
    return str(request.param)


def run(words: list[str | Path], home: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a home of its own."""
    path = f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        words,
        env={"PATH": path, "HOME": str(home), "TERM": "dumb"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def completed(shell: str, load: str, words: str, home: Path) -> str:
    """Return what a shell offers."""
    text = ASK[shell].format(load=load, words=words, last=len(words.split()))
    return run([shell, "-c", text], home).stdout


def test_commands_and_options_are_completed(shell: str, tmp_path: Path) -> None:
    """As the shell itself asks for them."""
    commands = completed(shell, LOAD[shell], "ses", tmp_path)
    verbs = completed(shell, LOAD[shell], "session cl", tmp_path)
    options = completed(shell, LOAD[shell], "session create --pool x --o", tmp_path)

    assert "session" in commands
    assert "close" in verbs
    assert "--on-interrupt" in options


def test_what_is_installed_is_what_is_printed(shell: str, tmp_path: Path) -> None:
    """Where this shell looks for it, and it completes from there."""
    said = run([PROGRAM, "completion", shell, "--install"], tmp_path)

    path = Path(said.stdout.strip())
    assert path.is_relative_to(tmp_path)
    assert path.read_text() == run([PROGRAM, "completion", shell], tmp_path).stdout
    load = f"fpath=({path.parent} $fpath); compinit -u -D" if shell == "zsh" else f"source {path}"
    assert "session" in completed(shell, load, "ses", tmp_path)
    assert "shells that start from now on" in said.stderr
