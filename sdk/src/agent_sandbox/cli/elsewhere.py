"""A cluster that is not this machine's own: options that name it, and the way there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from agent_sandbox import places
from agent_sandbox.access import ClientOptions
from agent_sandbox.kubernetes.names import NAMESPACE
from agent_sandbox.kubernetes.reach import Place, reach
from shared.errors import InvalidMessage
from shared.kubectl import Kubectl

F = TypeVar("F", bound=Callable[..., Any])

KEPT = "agent_sandbox.elsewhere"
"""Where the options are kept until a client is opened."""


class Elsewhere(msgspec.Struct, frozen=True, kw_only=True):
    """What was said on the command line."""

    servers: tuple[str, ...] = ()
    credential: Path | None = None
    ca: Path | None = None
    context: str | None = None
    namespace: str = NAMESPACE


def _keep(context: click.Context, parameter: click.Parameter, value: object) -> None:
    assert parameter.name is not None
    if value is not None:
        context.meta.setdefault(KEPT, {})[parameter.name] = value


_FILE = click.Path(dir_okay=False, path_type=Path)
_OPTIONS = (
    click.option(
        "--server",
        "servers",
        multiple=True,
        metavar="URL",
        expose_value=False,
        callback=_keep,
        help="A cluster elsewhere: http(s)://… of a gateway, or nats://…, tls://… of a server; else "
        "$AGENT_SANDBOX_SERVERS. Repeatable.",
    ),
    click.option(
        "--credential",
        type=_FILE,
        metavar="FILE",
        expose_value=False,
        callback=_keep,
        help="Credential file (.creds) for servers; else $AGENT_SANDBOX_CREDENTIAL.",
    ),
    click.option(
        "--ca",
        type=_FILE,
        metavar="FILE",
        expose_value=False,
        callback=_keep,
        help="Certificates (PEM) to believe; else $AGENT_SANDBOX_CA, else the system's.",
    ),
    click.option(
        "--context",
        metavar="NAME",
        envvar=places.CONTEXT_VARIABLE,
        expose_value=False,
        callback=_keep,
        help="A cluster of Kubernetes, by a context of the kubeconfig (`.` is the current one): kubectl fetches the "
        "credential and forwards a port; else $AGENT_SANDBOX_CONTEXT.",
    ),
    click.option(
        "--namespace",
        metavar="NAME",
        expose_value=False,
        callback=_keep,
        help=f"Where the system is there; {NAMESPACE} unless it is named.",
    ),
)


def elsewhere_options(command: F) -> F:
    """Add what names a cluster elsewhere."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def said_elsewhere(context: click.Context) -> Elsewhere:
    """Return what was said of a cluster elsewhere."""
    return Elsewhere(**context.meta.get(KEPT, {}))


def find_options(state: Path | None, context: click.Context) -> ClientOptions:
    """Return how a client of this command connects. A way that had to be opened is shut when the command ends.

    Raises:
        InvalidMessage: options that exclude each other.
        ServiceError: see `agent_sandbox.kubernetes.reach`.
    """
    said = said_elsewhere(context)
    if said.context is None or state is not None:
        return ClientOptions(
            state=state, servers=said.servers, credential=said.credential, ca=said.ca
        )
    if said.credential is not None or said.ca is not None:
        raise InvalidMessage("--context brings a credential and certificates: name none beside it")
    place = Place(
        kubectl=chosen_kubectl(said.context), namespace=said.namespace, tenant=places.TENANT
    )
    servers = said.servers or _servers_of(os.environ.get(places.SERVERS_VARIABLE, ""))
    way = context.with_resource(reach(place, servers))
    return ClientOptions(servers=way.servers, credential=way.credential, ca=way.ca)


def chosen_kubectl(context: str | None) -> Kubectl:
    """Return kubectl on a context; `.` and None: the current one."""
    return Kubectl(context=None if context == "." else context)


def _servers_of(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
