"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from agent_sandbox.cli.elsewhere import elsewhere_options, find_options
from agent_sandbox.cli.names import complete_pool, complete_session
from agent_sandbox.client import Client
from agent_sandbox.orders import Content
from shared import limits
from shared.classes import CLIENT_CLASSES
from shared.errors import InvalidMessage

F = TypeVar("F", bound=Callable[..., Any])

state_option = click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    help="State folder; else $AGENT_SANDBOX_STATE, else the user's.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON object on stdout instead of text."
)
verbose_option = click.option(
    "-v", "--verbose", is_flag=True, help="Say on stderr what ran where, and how long it took."
)
session_argument = click.argument("session_id", metavar="SESSION", shell_complete=complete_session)


def access_options(command: F) -> F:
    """Add where the cluster is: `--state`, or what names one elsewhere."""
    return state_option(elsewhere_options(command))


def pool_options(command: F) -> F:
    """Add `--pool` and `--class`."""
    command = click.option(
        "--pool",
        default="default",
        show_default=True,
        help="Pool to run in.",
        shell_complete=complete_pool,
    )(command)
    return click.option(
        "--class",
        "klass",
        type=click.Choice(CLIENT_CLASSES),
        default="interactive",
        show_default=True,
        help="How urgent it is.",
    )(command)


def task_options(command: F) -> F:
    """Add what every task takes: files, environment, times."""
    for option in (
        click.option(
            "--file",
            "files",
            multiple=True,
            metavar="LOCAL[:PATH]",
            help="Send a file along; PATH in the workspace, else its name. Repeatable.",
        ),
        click.option(
            "--env",
            "env",
            multiple=True,
            metavar="NAME=VALUE",
            help="Environment of the program. Repeatable.",
        ),
        click.option(
            "--timeout",
            "timeout_s",
            type=click.FloatRange(0, limits.TIMEOUT_S_MAX, min_open=True),
            metavar="S",
            help="Longest run, seconds, at most a day; then it is killed and the exit code is 124.",
        ),
        click.option(
            "--deadline",
            "deadline_s",
            type=click.FloatRange(0, limits.DEADLINE_S_MAX, min_open=True),
            metavar="S",
            help="Longest time to the end, waiting included, seconds, at most a day.",
        ),
        click.option(
            "--on-interrupt",
            type=click.Choice(["rerun", "resume", "fail"]),
            help="When its worker is lost in mid-task; else as the pool says.",
        ),
    ):
        command = option(command)
    return command


def next_task_options(command: F) -> F:
    """Add what a task of a session takes."""
    return click.option(
        "--class",
        "klass",
        type=click.Choice(CLIENT_CLASSES),
        help="How urgent it is if the session has no worker; else as the session.",
    )(task_options(command))


def read_task_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the client's options for what `task_options` and `pool_options` added; absent ones are left out.

    Raises:
        click.BadParameter: an `--env` without `=`.
    """
    options = {
        name: given[name]
        for name in ("timeout_s", "deadline_s", "on_interrupt", "pool", "klass", "cwd", "shell")
        if given.get(name) is not None
    }
    if given.get("files"):
        options["files"] = dict(split_file(text) for text in given["files"])
    if given.get("env"):
        options["env"] = dict(split_env(text) for text in given["env"])
    return options


def split_file(text: str) -> tuple[str, Content]:
    """Return (path in the workspace, local file) of `LOCAL[:PATH]`. A local name that holds a colon needs the PATH."""
    local, colon, path = text.rpartition(":")
    if not colon:
        local, path = text, Path(text).name
    return path, Path(local)


def split_env(text: str) -> tuple[str, str]:
    """Return (name, value) of `NAME=VALUE`.

    Raises:
        click.BadParameter: no `=`, or no name.
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"NAME=VALUE expected, got {text!r}", param_hint="--env")
    return name, value


def read_code(source: str) -> str:
    """Return Python code from a file; `-` is stdin.

    Raises:
        InvalidMessage: it can't be read, or is no text.
    """
    try:
        return sys.stdin.read() if source == "-" else Path(source).read_text()
    except OSError as exc:
        raise InvalidMessage(f"file {source}: {exc.strerror or exc}") from exc
    except UnicodeDecodeError as exc:
        raise InvalidMessage(f"file {source}: not UTF-8 text") from exc


def open_client(state: Path | None) -> Client:
    """Return a client for the state folder, or for the cluster that was named; entered by the caller.

    Raises:
        ServiceError: there is no way to it.
    """
    return Client(find_options(state, click.get_current_context()))
