"""`workspace`: what sessions' files are saved in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import msgspec

from agent_sandbox import places
from agent_sandbox.cli.options import json_option, state_option
from agent_sandbox.cli.output import Progress, note, print_facts, print_json, print_table
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.programs import checkpointer_name, inherited, node_names
from agent_sandbox.embedded.wishes import store_address
from shared.errors import NotFound, Unavailable
from shared.verified import StoreVerified

MODULE = "checkpointer.verify"
"""A program of the service that made the packs: it alone knows their form."""
CREDENTIAL_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@click.group()
def workspace() -> None:
    """Workspaces: where sessions' files are saved."""


@workspace.command()
@click.option(
    "--store",
    metavar="FOLDER|s3://…",
    help="Another store than the embedded cluster's; no cluster is asked.",
)
@click.option(
    "--store-credentials",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Key of an S3 store: a JSON file that you alone can read.",
)
@state_option
@json_option
def verify(
    state: Path | None, as_json: bool, store: str | None, store_credentials: Path | None
) -> None:
    """Read all that is saved, and name what is damaged.

    Every pack is read whole and compared with its names; what is damaged is named with the sessions that need it. Nothing
    is changed. Exit code 1 if something is damaged, 125 if it cannot be told.
    """
    variables = (
        _named(store, store_credentials)
        if store
        else _embedded(Folder(state or places.default_state(os.environ)))
    )
    with Progress(quiet=as_json or not sys.stderr.isatty()) as progress:
        progress.say("reading what is saved")
        report = _ask(variables)
    if as_json:
        print_json(report)
    else:
        _print(report)
    sys.exit(1 if report.damage else 0)


def _named(store: str, credentials: Path | None) -> dict[str, str]:
    known = {name: os.environ[name] for name in CREDENTIAL_VARIABLES if name in os.environ}
    if credentials is not None:
        known["CHECKPOINTER_STORE_CREDENTIALS_FILE"] = str(credentials.expanduser().absolute())
    return known | {"CHECKPOINTER_STORE": store_address(store)}


def _embedded(folder: Folder) -> dict[str, str]:
    """Return how the embedded cluster's store is reached, and the cluster itself."""
    cluster = folder.read()
    variables = {"CHECKPOINTER_STORE": cluster.store}
    if cluster.store_credentials:
        variables["CHECKPOINTER_STORE_CREDENTIALS_FILE"] = cluster.store_credentials
    credential = folder.credential(checkpointer_name(node_names(cluster)[0]))
    if cluster.direct and credential.exists():
        variables["CHECKPOINTER_SERVERS"] = ",".join(cluster.direct)
        variables["CHECKPOINTER_CREDENTIAL_FILE"] = str(credential)
    return variables


def _ask(variables: dict[str, str]) -> StoreVerified:
    """Run the program, and return what it found.

    Raises:
        NotFound: it is not installed.
        Unavailable: it cannot be told.
    """
    command = [sys.executable, "-m", MODULE]
    done = subprocess.run(
        command, env=inherited(os.environ) | variables, capture_output=True, check=False
    )
    if done.returncode not in (0, 1):
        said = done.stderr.decode(errors="replace").strip().splitlines()
        text = said[-1].removeprefix("verify: ") if said else f"it ended with {done.returncode}"
        if "No module named" in text:
            raise NotFound("verify: install agent-sandbox[embedded], which brings what reads packs")
        raise Unavailable(f"verify: {text}")
    return msgspec.json.decode(done.stdout, type=StoreVerified)


def _print(report: StoreVerified) -> None:
    print_facts(
        {
            "store": report.store,
            "packs": report.packs,
            "bytes": report.bytes,
            "sessions": report.sessions,
            "snapshots": report.snapshots,
            "damaged": len(report.damage) or "nothing",
        }
    )
    if not report.by_heads:
        note("no cluster was asked: of each session only its newest snapshot must be there")
    if report.damage:
        print_table(
            "damage",
            ("pack", "what", "sessions"),
            [(one.pack, one.what, " ".join(one.sessions)) for one in report.damage],
        )
