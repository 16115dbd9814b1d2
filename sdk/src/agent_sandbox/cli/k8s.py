"""`k8s`: a system on Kubernetes, and what is wrong with it."""

from __future__ import annotations

import asyncio
import sys

import click

from agent_sandbox import places
from agent_sandbox.access import ClientOptions
from agent_sandbox.cli.doctor import print_checks
from agent_sandbox.cli.elsewhere import chosen_kubectl
from agent_sandbox.cli.options import json_option
from agent_sandbox.cli.output import Progress, print_json, print_text
from agent_sandbox.client import Client
from agent_sandbox.kubernetes.facts import look
from agent_sandbox.kubernetes.judge import judge
from agent_sandbox.kubernetes.names import NAMESPACE, namespaces
from agent_sandbox.kubernetes.reach import Place, reach
from shared.messages import Message
from shared.views import PoolsAnswer

VERDICTS = {
    "ok": "all is well",
    "warn": "tasks run, with less than there could be",
    "fail": "tasks do not run, or not all of them: do first what stands at `fail`",
}


@click.group()
def k8s() -> None:
    """A system on Kubernetes."""


@k8s.command("doctor")
@click.option(
    "--context",
    metavar="NAME",
    envvar=places.CONTEXT_VARIABLE,
    help="Context of the kubeconfig; else $AGENT_SANDBOX_CONTEXT, else its current one.",
)
@click.option(
    "--namespace",
    metavar="NAME",
    default=NAMESPACE,
    show_default=True,
    help="Where the system is, or would be.",
)
@json_option
def doctor(context: str | None, namespace: str, as_json: bool) -> None:
    """Say what is wrong with a system on Kubernetes, or with the cluster that is to have one, and what to do.

    Rights, nodes, isolation classes, storage, network policies, services, NATS servers, pools. Nothing is changed. Exit
    code 1 if tasks do not run there, or not all of them.
    """
    kubectl = chosen_kubectl(context)
    place = Place(kubectl=kubectl, namespace=namespace, tenant=places.TENANT)
    with Progress(quiet=as_json or not sys.stderr.isatty()) as progress:
        progress.say("looking at the cluster")
        report = judge(look(kubectl, namespaces(namespace), lambda: ask_pools(place)))
    if as_json:
        print_json(report)
    else:
        print_checks(report.checks)
        print_text(VERDICTS[report.verdict])
    sys.exit(1 if report.verdict == "fail" else 0)


def ask_pools(place: Place) -> PoolsAnswer:
    """Ask the pool-managers, all the way that a client's question takes.

    Raises:
        ServiceError: no way there, or no answer.
    """
    with reach(place) as way:

        async def work() -> PoolsAnswer:
            options = ClientOptions(servers=way.servers, credential=way.credential, ca=way.ca)
            async with Client(options) as client:
                return await client.ask("pools", Message(), PoolsAnswer)

        return asyncio.run(work())
