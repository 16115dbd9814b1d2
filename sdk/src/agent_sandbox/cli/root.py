"""The root command, and how every command fails: one line on stderr, and an exit code."""

from __future__ import annotations

import sys

import click
import msgspec

from agent_sandbox.cli.cluster import down, status, up
from agent_sandbox.results import EXIT_SYSTEM
from shared import logs
from shared.errors import ServiceError

EPILOG = """Exit codes: the command's own for run, session exec and session python (128 + signal where one killed it);
124 timeout or deadline; 125 fault or refusal of the system; 126 and 127 the program can't be run or found; 130
cancelled by Ctrl-C; 137 out of memory; 2 wrong usage."""


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="agent-sandbox")
def root() -> None:
    """Run untrusted code in warm, confined sandboxes."""


for command in (up, down, status):
    root.add_command(command)


def main() -> None:
    """Run the command line; never a traceback for what a user can meet."""
    logs.configure(service="cli", level="error")
    try:
        root(standalone_mode=True)
    except ServiceError as exc:
        fail(exc)


def fail(exc: ServiceError) -> None:
    """Say what went wrong, in JSON where the command was asked for JSON, and exit with 125."""
    if "--json" in sys.argv:
        click.echo(msgspec.json.encode({"error": exc.info()}).decode())
    sure = "" if exc.definite else " (it may have happened)"
    click.echo(f"agent-sandbox: {exc.code}: {exc}{sure}", err=True)
    sys.exit(EXIT_SYSTEM)
