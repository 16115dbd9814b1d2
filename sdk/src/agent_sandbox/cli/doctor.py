"""`doctor`: what this machine has for an embedded cluster, and what to do about what is missing."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from agent_sandbox import places
from agent_sandbox.checkup.facts import look
from agent_sandbox.checkup.judge import judge
from agent_sandbox.checkup.verdict import Check
from agent_sandbox.cli.options import json_option, state_option
from agent_sandbox.cli.output import Progress, print_json, print_table, print_text
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.wishes import BASE_PORT_MAX

VERDICTS = {
    "ok": "`agent-sandbox up` will work here",
    "warn": "`agent-sandbox up` will work here, with less than there could be",
    "fail": "`agent-sandbox up` will not work here: do first what stands at `fail`",
}


@click.command()
@click.option(
    "--port",
    type=click.IntRange(1, BASE_PORT_MAX),
    help="First of the ports that `up --port` is to be told.",
)
@state_option
@json_option
def doctor(state: Path | None, as_json: bool, port: int | None) -> None:
    """Say what this machine has for an embedded cluster, and what to do.

    Isolation classes (and why not), control groups, ports, disk, memory, files, nats-server. Nothing is changed. Exit
    code 1 if `up` will not work.
    """
    folder = Folder(state or places.default_state(os.environ))
    with Progress(quiet=as_json or not sys.stderr.isatty()) as progress:
        progress.say("trying what this machine has")
        report = judge(look(folder, port))
    if as_json:
        print_json(report)
    else:
        print_checks(report.checks)
        print_text(VERDICTS[report.verdict])
    sys.exit(1 if report.verdict == "fail" else 0)


def print_checks(checks: Sequence[Check]) -> None:
    """Print what was found, then the details, then what to do."""
    print_table(
        "",
        ("", "what", "found"),
        [(check.verdict, check.name, check.found) for check in checks],
    )
    for check in checks:
        if check.details:
            print_table(
                check.name,
                ("which", "here", "why not"),
                [(name, "" if why else "yes", why) for name, why in check.details.items()],
            )
    for check in checks:
        if check.do:
            print_text(f"{check.verdict} {check.name}: {check.do}")
