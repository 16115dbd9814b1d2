"""The root command, and how every command fails: one line on stderr, and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import click

from agent_sandbox.cli.attach import attach
from agent_sandbox.cli.chaos import chaos
from agent_sandbox.cli.cluster import down, status, up
from agent_sandbox.cli.completion import completion
from agent_sandbox.cli.deadletter import deadletter
from agent_sandbox.cli.doctor import doctor
from agent_sandbox.cli.env import env
from agent_sandbox.cli.k8s import k8s
from agent_sandbox.cli.lab import lab
from agent_sandbox.cli.logs import logs as show_logs
from agent_sandbox.cli.output import print_json
from agent_sandbox.cli.pool import pool
from agent_sandbox.cli.run import run
from agent_sandbox.cli.session import session
from agent_sandbox.cli.shapes import Failure, Trouble
from agent_sandbox.cli.stock import backtest, explain, simulate
from agent_sandbox.cli.store import workspace
from agent_sandbox.cli.task import task
from agent_sandbox.cli.transfer import download, get, put, upload
from agent_sandbox.cli.tti import tti
from agent_sandbox.cli.workspace import COMMANDS
from agent_sandbox.results import EXIT_CANCELLED, EXIT_SYSTEM
from shared import logs
from shared.errors import ServiceError
from shared.traces.settings import open_sdk

EPILOG = """Exit codes of run, session exec, session python, session attach and deadletter replay: the program's own (128 + signal where one
killed it); 124 timeout or deadline; 125 fault or refusal of the system; 126 or 127 the program can't be run or found; 130
cancelled by Ctrl-C; 137 out of memory. Of all: 2 wrong usage, 125 anything else."""
TRACED = ("run", "session", "tti", "deadletter")
"""Commands that publish tasks: what they do begins a trace, where `OTEL_…` variables ask for that."""


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="agent-sandbox")
def root() -> None:
    """Run untrusted code in warm, confined sandboxes."""


for _command in (
    up,
    down,
    status,
    doctor,
    k8s,
    env,
    run,
    session,
    task,
    show_logs,
    pool,
    tti,
    deadletter,
    workspace,
    completion,
    chaos,
    lab,
):
    root.add_command(_command)
for _command in (put, get, upload, download, *COMMANDS, attach):
    session.add_command(_command)
for _command in (explain, simulate, backtest):
    pool.add_command(_command)


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Yield every command that does something, by its whole name."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def main() -> None:
    """Run the command line; what a user can meet is one line on stderr, never a traceback."""
    logs.configure(service="cli", level="critical")
    traced = sys.argv[1:2] and sys.argv[1] in TRACED
    telemetry = open_sdk(os.environ, "agent-sandbox-cli", str(os.getpid())) if traced else None
    try:
        code = root(standalone_mode=False)
    except click.ClickException as exc:
        exc.show()
        code = exc.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = EXIT_CANCELLED
    except ServiceError as exc:
        code = _fail(exc)
    except BrokenPipeError:  # the reader of our output left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    finally:
        if telemetry is not None:
            telemetry.close()
    sys.exit(code if isinstance(code, int) else 0)


def _fail(exc: ServiceError) -> int:
    """Say what went wrong, as an object too where the command was asked for JSON."""
    words = sys.argv[: sys.argv.index("--")] if "--" in sys.argv else sys.argv
    if "--json" in words:
        trouble = Trouble(code=exc.code, message=str(exc), definite=exc.definite)
        print_json(Failure(error=trouble))
    sure = "" if exc.definite else " (it may have happened)"
    click.echo(f"agent-sandbox: {exc.code}: {exc}{sure}", err=True)
    return EXIT_SYSTEM
