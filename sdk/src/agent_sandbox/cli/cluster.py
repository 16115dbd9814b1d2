"""`up`, `down` and `status`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import click

from agent_sandbox import places
from agent_sandbox.cli.options import json_option, state_option
from agent_sandbox.cli.output import Progress, print_facts, print_json
from agent_sandbox.cli.shapes import DownDone, UpDone
from agent_sandbox.cli.status import print_status
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.status import look
from agent_sandbox.embedded.up import down as take_down
from agent_sandbox.embedded.up import up as bring_up
from agent_sandbox.embedded.wishes import BASE_PORT_MAX, NODES_MAX, Wishes
from shared.pools import ISOLATION_CLASSES

WAIT_S = 90.0


@click.command()
@state_option
@click.option("--nodes", type=click.IntRange(1, NODES_MAX), help="Virtual nodes; 2 the first time.")
@click.option(
    "--pools",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Pools, a TOML file; kept in the state folder.",
)
@click.option(
    "--isolation",
    type=click.Choice(["auto", *ISOLATION_CLASSES]),
    help="Class for pools that say `auto`.",
)
@click.option(
    "--store",
    metavar="nats|FOLDER|s3://…",
    help="Where sessions' files are saved; `nats` the first time, and fixed from then on.",
)
@click.option(
    "--store-credentials",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Key of an S3 store: a JSON file that you alone can read.",
)
@click.option(
    "--port",
    type=click.IntRange(0, BASE_PORT_MAX),
    help="First of fourteen ports in a row; 0: free ones.",
)
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(1, 3600),
    default=WAIT_S,
    show_default=True,
    help="Longest wait, seconds.",
)
@json_option
def up(state: Path | None, as_json: bool, wait_s: float, **wishes: Any) -> None:
    """Start the embedded cluster in the background, or find it running.

    Everything lies in one state folder; a second `up` finds it again, and applies what is wished anew.
    """
    folder = Folder(state or places.default_state(os.environ))
    asked = Wishes(
        nodes=wishes["nodes"],
        pools=wishes["pools"],
        isolation=wishes["isolation"],
        store=wishes["store"],
        store_credentials=wishes["store_credentials"],
        base_port=wishes["port"],
    )
    with Progress(quiet=as_json) as progress:
        done = bring_up(folder, asked, wait_s=wait_s, say=progress.say)
    if as_json:
        print_json(
            UpDone(
                did=done.did,
                state=str(folder.path),
                servers=done.cluster.servers,
                gateways=done.cluster.gateways,
                nodes=done.cluster.nodes,
                took_s=round(done.took_s, 3),
            )
        )
        return
    words = {"started": "up", "found": "runs already", "applied": "changes applied"}
    click.echo(f"{words[done.did]} ({done.took_s:.1f} s), nodes: {done.cluster.nodes}")
    print_facts(
        {
            "servers": ", ".join(done.cluster.servers),
            "gateways": ", ".join(done.cluster.gateways),
            "state": folder.path,
            "credential": folder.client_credential,
            "token": folder.token_file,
        }
    )


@click.command()
@state_option
@json_option
def down(state: Path | None, as_json: bool) -> None:
    """End everything that `up` started. The data stays."""
    folder = Folder(state or places.default_state(os.environ))
    with Progress(quiet=as_json) as progress:
        ran = take_down(folder, say=progress.say)
    if as_json:
        print_json(DownDone(did="stopped" if ran else "nothing", state=str(folder.path)))
    else:
        click.echo("down: nothing of it runs any more" if ran else "nothing ran")


@click.command()
@state_option
@json_option
def status(state: Path | None, as_json: bool) -> None:
    """Say what runs, and how it is.

    Servers, pool-managers, nodes and their isolation, pools. Exit code 1 unless all of it runs.
    """
    view = asyncio.run(look(Folder(state or places.default_state(os.environ))))
    if as_json:
        print_json(view)
    else:
        print_status(view)
    sys.exit(0 if view.is_healthy else 1)
