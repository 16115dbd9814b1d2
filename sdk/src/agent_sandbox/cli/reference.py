"""Makes the reference of all commands from what they say of themselves, for the site: `python -m agent_sandbox.cli.reference`."""

from __future__ import annotations

import inspect
import sys

import click

from agent_sandbox.cli.root import leaves, root

WIDTH = 100


def reference() -> str:
    """Return a section for each command, as Markdown."""
    return "".join(_of_command(name, command) for name, command in leaves(root))


def _of_command(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"agent-sandbox {name}", terminal_width=WIDTH)
    usage = command.get_usage(context).removeprefix("Usage: ")
    lines = [" ".join(line.split()) for line in usage.splitlines()]
    page = f"## {name}\n{_text(command.help)}\n\n```text\n{' '.join(lines)}\n```\n"
    records = [
        record
        for parameter in command.params
        if (record := parameter.get_help_record(context)) is not None
    ]
    if records:
        page += "\n| option | meaning |\n|---|---|\n"
        page += "".join(f"| `{_cell(names)}` | {_cell(said)} |\n" for names, said in records)
    return f"{page}\n"


def _text(said: str | None) -> str:
    """Return a command's help as paragraphs: click's own marks are for terminals."""
    return inspect.cleandoc(said or "").replace("\b\n", "")


def _cell(said: str) -> str:
    """Return text as a table's cell holds it."""
    return " ".join(said.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(reference())
