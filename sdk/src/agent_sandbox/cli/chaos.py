"""`chaos`: the chaos lab, a program of its own beside the client."""

from __future__ import annotations

import importlib.util
import os
import sys

import click

from shared.errors import NotFound

MODULE = "chaos"


@click.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def chaos(words: tuple[str, ...]) -> None:
    """Kill nodes and servers under load, and judge what became of every session.

    `agent-sandbox chaos --help` lists its commands.
    """
    if importlib.util.find_spec(MODULE) is None:
        raise NotFound("chaos: the lab is not installed; it comes with agent-sandbox[embedded]")
    # -P: what lies in the current folder under that name is not the lab.
    os.execv(sys.executable, [sys.executable, "-P", "-m", MODULE, *words])
