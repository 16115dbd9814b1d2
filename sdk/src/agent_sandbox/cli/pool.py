"""`pool`: how pools are, and why one is not full."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from agent_sandbox.cli.names import complete_pool
from agent_sandbox.cli.options import access_options, json_option, open_client
from agent_sandbox.cli.output import print_facts, print_json, print_table
from agent_sandbox.cli.shapes import Pools, PoolShown
from shared.errors import NotFound
from shared.messages import Message
from shared.pools import ISOLATION_CLASSES
from shared.views import NodeView, PoolsAnswer, PoolView


@click.group()
def pool() -> None:
    """Pools: workers that wait, and those that work."""


@pool.command("list")
@access_options
@json_option
def list_pools(state: Path | None, as_json: bool) -> None:
    """List pools: how many workers wait, start and work."""
    answer = ask_pools(state)
    if as_json:
        print_json(Pools(pools=answer.pools))
    else:
        print_pools("", answer.pools)


@pool.command()
@click.argument("name", metavar="POOL", shell_complete=complete_pool)
@access_options
@json_option
def show(name: str, state: Path | None, as_json: bool) -> None:
    """Show a pool: its workers, their isolation, and the nodes."""
    answer = ask_pools(state)
    found = pick(answer, name)
    if as_json:
        print_json(PoolShown(pool=found, nodes=answer.nodes))
        return
    facts: dict[str, Any] = {
        "pool": found.pool,
        "stock": str(found.stock) if found.stock else zero(found),
        "warm": str(found.warm),
        "starting": found.starting,
        "bound": str(found.bound),
        "queued": found.queued,
        "pods": f"at most {found.pods_max}",
        "wait": wait_of(found),
        "isolation": isolation_of(found.isolation, found.classes),
        "note": found.reason,
    }
    print_facts(facts)
    print_table(
        "nodes",
        ("node", "state", "pods", "capacity", "isolation"),
        [
            (node.node, _state_of(node), node.pods, node.capacity, _classes_of(node))
            for node in answer.nodes
        ],
    )


def wait_of(found: PoolView) -> str:
    """Return about how long a new session would wait for its worker now."""
    if found.wait_s is None:
        return "not known yet"
    return "none" if found.wait_s == 0 else f"about {found.wait_s:.2g} s for a new session"


def zero(found: PoolView) -> str:
    """Return what a stock of 0 means."""
    if found.policy is not None:
        return "0 now, by its promise"
    return "0: each worker is started on demand"


def print_pools(title: str, pools: tuple[PoolView, ...]) -> None:
    """Print a table of pools."""
    print_table(
        title,
        ("pool", "stock", "warm", "starting", "bound", "queued", "isolation", "note"),
        [
            (
                each.pool,
                each.stock,
                each.warm,
                each.starting or None,
                each.bound,
                each.queued or None,
                isolation_of(each.isolation, each.classes),
                each.reason,
            )
            for each in pools
        ],
        empty="no pools" if not title else "",
    )


def isolation_of(declared: str, classes: Mapping[str, int]) -> str:
    """Return what a pool declares, and what its sandboxes really have where that is not the same."""
    real = ", ".join(f"{name}" for name in classes if name)
    return declared if real in ("", declared) else f"{declared}: {real}"


def pick(answer: PoolsAnswer, name: str) -> PoolView:
    """Return one of the pools.

    Raises:
        NotFound: there is none of that name; says which there are.
    """
    found = next((each for each in answer.pools if each.pool == name), None)
    if found is None:
        there = ", ".join(each.pool for each in answer.pools)
        raise NotFound(f"no pool {name!r}: there are {there or 'none'}")
    return found


def ask_pools(state: Path | None) -> PoolsAnswer:
    """Ask a pool-manager how pools and nodes are."""

    async def work() -> PoolsAnswer:
        async with open_client(state) as client:
            return await client.ask("pools", Message(), PoolsAnswer)

    return asyncio.run(work())


def _state_of(node: NodeView) -> str:
    if not node.alive:
        return "silent"
    return "draining" if node.draining else "works"


def _classes_of(node: NodeView) -> str:
    return ", ".join(name for name in ISOLATION_CLASSES if node.isolation.get(name) == "")
