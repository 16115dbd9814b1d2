"""`lab`: the labs, programs of their own beside the client."""

from __future__ import annotations

import importlib.util
import os
import sys

import click

from shared.errors import NotFound

MODULE = "labs"


@click.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def lab(words: tuple[str, ...]) -> None:
    """Break something, then add the part that mends it: the labs.

    `agent-sandbox lab list` names them, `agent-sandbox lab 1` runs the first.
    """
    if importlib.util.find_spec(MODULE) is None:
        raise NotFound("lab: the labs come with the repository: run this from a checkout of it")
    # -P: what lies in the current folder under that name is not the labs.
    os.execv(sys.executable, [sys.executable, "-P", "-m", MODULE, *words])
