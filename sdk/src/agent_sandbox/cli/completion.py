"""`completion`: what a shell needs to complete our commands, and where it looks for it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import click
from click.shell_completion import get_completion_class

from agent_sandbox.cli.output import note
from agent_sandbox.embedded.folder import translating
from shared.errors import InvariantBroken

PROGRAM = "agent-sandbox"
VARIABLE = "_AGENT_SANDBOX_COMPLETE"


class Place(NamedTuple):
    """Where a shell looks for completions, and what else it needs."""

    path: Path
    more: str = ""


def place_of(shell: str) -> Place:
    """Return where a user's own completions lie, by the shell's rules."""
    home = Path.home()
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    if shell == "bash":
        return Place(data / "bash-completion/completions" / PROGRAM, "needs bash-completion")
    if shell == "fish":
        return Place(config / "fish/completions" / f"{PROGRAM}.fish")
    folder = Path(os.environ.get("ZDOTDIR") or home) / ".zfunc"
    return Place(
        folder / f"_{PROGRAM}",
        f"have in .zshrc, before compinit: fpath=({folder} $fpath)",
    )


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--install", is_flag=True, help="Write it where the shell looks for it.")
def completion(shell: str, install: bool) -> None:
    """Print what completes commands, options and ids in a shell.

    For one shell: `eval "$(agent-sandbox completion bash)"` (fish: `agent-sandbox completion fish | source`). For all that
    follow: --install.
    """
    text = script(shell)
    if not install:
        click.echo(text)
        return
    place = place_of(shell)
    with translating(place.path):
        place.path.parent.mkdir(parents=True, exist_ok=True)
        place.path.write_text(text + "\n", encoding="utf-8")
    click.echo(place.path)
    note(f"shells that start from now on complete{f'; {place.more}' if place.more else ''}")


def script(shell: str) -> str:
    """Return a shell's program that asks us for completions."""
    kind = get_completion_class(shell)
    root = click.get_current_context().find_root().command
    if kind is None:
        raise InvariantBroken(f"no completion for {shell}")
    # Not `source()`: for bash it starts one to ask its version.
    made = kind(root, {}, PROGRAM, VARIABLE)
    return made.source_template % made.source_vars()
