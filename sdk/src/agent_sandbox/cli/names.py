"""Names that a shell completes by asking the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import click
from click.shell_completion import CompletionItem

from agent_sandbox.access import ClientOptions
from agent_sandbox.cli.elsewhere import said_elsewhere
from agent_sandbox.client import Client
from shared.errors import ServiceError
from shared.messages import Message
from shared.views import ListAsk, PoolsAnswer, SessionsAnswer

WITHIN_S = 1.0
"""Longest wait for names from the cluster: who pressed a key waits for it."""
NAMES_MAX = 100


def complete_session(
    context: click.Context, _parameter: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Return ids of sessions that have not ended."""

    async def ask(client: Client) -> list[CompletionItem]:
        answer = await client.ask("sessions", ListAsk(limit=NAMES_MAX), SessionsAnswer)
        return [CompletionItem(row.session) for row in answer.sessions if not row.ended_ms]

    return _asked(context, typed, ask)


def complete_pool(
    context: click.Context, _parameter: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Return names of pools."""

    async def ask(client: Client) -> list[CompletionItem]:
        answer = await client.ask("pools", Message(), PoolsAnswer)
        return [CompletionItem(row.pool) for row in answer.pools]

    return _asked(context, typed, ask)


def _asked(
    context: click.Context, typed: str, ask: Callable[[Client], Awaitable[list[CompletionItem]]]
) -> list[CompletionItem]:
    """Return what the cluster names and fits; nothing where it does not answer at once."""

    async def work() -> list[CompletionItem]:
        said = said_elsewhere(context)
        if said.context is not None and not said.servers:
            return []  # to open a way there takes longer than anybody waits for a key
        options = ClientOptions(
            state=context.params.get("state"),
            servers=said.servers,
            credential=said.credential,
            ca=said.ca,
            connect_s=WITHIN_S,
        )
        async with asyncio.timeout(WITHIN_S), Client(options) as client:
            return await ask(client)

    try:
        found = asyncio.run(work())
    except (ServiceError, TimeoutError):
        return []
    return [item for item in found if item.value.startswith(typed)]
