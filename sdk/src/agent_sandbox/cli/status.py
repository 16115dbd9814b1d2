"""How `status` looks on a terminal."""

from __future__ import annotations

import time

from agent_sandbox.cli.output import ago, print_table, print_text
from agent_sandbox.cli.pool import print_pools
from agent_sandbox.embedded.pools import NAMED_ONLY
from agent_sandbox.embedded.status import StatusView
from shared.pools import ISOLATION_CLASSES

KINDS = ("server", "edge", "manager", "node", "checkpointer", "gateway")
"""Order in which processes are listed."""


def print_status(view: StatusView) -> None:
    """Print the whole of it; nothing wider than the terminal."""
    print_text(f"{view.phase}: {view.state}" + (f" ({view.detail})" if view.detail else ""))
    if view.error:
        print_text(f"error: {view.error.message}")
    if view.phase in ("down", "crashed"):
        print_text("start it with `agent-sandbox up`")
        return
    _print_processes(view)
    if view.pools is None:
        why = view.pools_error.message if view.pools_error else "no answer"
        print_text(f"pools: the pool-managers do not answer: {why}")
        return
    print_pools("pools", view.pools.pools)
    for node in view.pools.nodes:
        print_table(
            f"isolation on {node.node}" + ("" if node.alive else " (silent)"),
            ("class", "here", "why not"),
            [
                (name, "" if node.isolation[name] else "yes", node.isolation[name])
                for name in ISOLATION_CLASSES
                if name in node.isolation
            ],
        )
        if all(other.isolation == node.isolation for other in view.pools.nodes):
            print_text(
                "the same on every node; `auto` takes the strongest, never " + ", ".join(NAMED_ONLY)
            )
            break


def _print_processes(view: StatusView) -> None:
    now_s = time.time()
    servers = {server.name: server for server in view.servers}
    nodes = {node.node: node for node in view.pools.nodes} if view.pools else {}
    rows = []
    for row in sorted(view.processes, key=lambda row: (KINDS.index(row.kind), row.name)):
        note = ""
        if server := servers.get(row.name):
            note = (
                f"port {server.port}, leads {server.leads}" if server.answers else "does not answer"
            )
            note += ", leader of all" if server.is_meta_leader else ""
        elif node := nodes.get(row.name):
            note = f"{node.pods} of {node.capacity} pods" + ("" if node.alive else ", silent")
        elif address := view.gateways.get(row.name):
            note = address
        probe = view.probes.get(row.name)
        if probe is not None and row.state == "running" and not probe.ready:
            note += f"{'; ' if note else ''}not ready: {probe.why}"
        if row.restarts and row.last_exit:
            note += f"{'; ' if note else ''}last: {row.last_exit}"
        rows.append(
            (
                row.name,
                row.state,
                row.process.pid if row.process else None,
                ago(row.started_ms, now_s),
                row.restarts or None,
                note,
            )
        )
    print_table("processes", ("name", "state", "pid", "age", "restarts", "note"), rows)
