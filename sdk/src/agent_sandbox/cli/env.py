"""`env`: where a cluster is reached, for programs that are not ours."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click
import msgspec

from agent_sandbox import places
from agent_sandbox.cli.options import json_option, state_option
from agent_sandbox.cli.output import print_json
from agent_sandbox.cli.shapes import Reached
from agent_sandbox.embedded.folder import Folder
from shared.errors import Unavailable


@click.command()
@state_option
@json_option
def env(state: Path | None, as_json: bool) -> None:
    """Print where the embedded cluster is reached, as variables for a shell.

    `eval "$(agent-sandbox env)"` exports SERVER and CREDENTIAL for NATS clients, URL and TOKEN_FILE for HTTP.
    """
    folder = Folder(state or places.default_state(os.environ))
    cluster = folder.read()
    if not cluster.servers or not cluster.gateways:
        raise Unavailable(f"the cluster in {folder.path} was never up: run `agent-sandbox up`")
    reached = Reached(
        SERVER=cluster.servers[0],
        CREDENTIAL=str(folder.client_credential),
        URL=cluster.gateways[0],
        TOKEN_FILE=str(folder.token_file),
    )
    if as_json:
        print_json(reached)
        return
    for name, value in msgspec.structs.asdict(reached).items():
        click.echo(f"export {name}={shlex.quote(value)}")
