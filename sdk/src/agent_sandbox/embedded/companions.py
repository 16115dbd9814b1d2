"""The nodes' checkpointers: processes that no supervisor keeps, since each is its node's child and dies with it."""

from __future__ import annotations

from collections.abc import Iterable

from agent_sandbox.embedded.procs import ProcessId, child_running
from agent_sandbox.embedded.programs import CHECKPOINTER_MODULE, checkpointer_name
from agent_sandbox.embedded.table import Row


def companions(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return a row for the checkpointer of each node that runs, as the kernel shows them now."""
    return tuple(_row(row) for row in rows if row.kind == "node" and row.state == "running")


def process_of(rows: Iterable[Row], name: str) -> ProcessId | None:
    """Return the process of a node's checkpointer, if it runs now."""
    return next((row.process for row in companions(rows) if row.name == name), None)


def _row(node: Row) -> Row:
    process = child_running(node.process, CHECKPOINTER_MODULE) if node.process else None
    return Row(
        name=checkpointer_name(node.name),
        kind="checkpointer",
        state="running" if process else "restarting",
        process=process,
    )
