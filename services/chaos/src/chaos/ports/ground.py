"""What some faults need before the cluster comes up (`chaos.adapters.ground` lays it)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from shared.failpoints import PlanFolder
from shared.testing.relay import Link, Relay

Need = Literal[
    "relays", "clocks", "failpoints", "server_disk", "node_disk", "store_disk", "store_folder", "power"
]  # fmt: skip


class Power(Protocol):
    """A disk whose power can fail."""

    place: Path
    """Where it is mounted."""

    def cut(self) -> None:
        """Let its power fail: nothing more is written, and what was not synced never was."""
        ...

    def restore(self) -> None:
        """Give it power again; its users must be gone."""
        ...


@dataclass
class Ground:
    """What was laid."""

    laid: frozenset[Need] = frozenset()
    relay: Relay | None = None
    nodes: dict[str, tuple[Link, ...]] = field(default_factory=dict)
    """Node -> its and its pods' ways to the servers."""
    checkpointers: dict[str, tuple[Link, ...]] = field(default_factory=dict)
    """Node -> its checkpointer's ways to the servers."""
    clocks: dict[str, Path] = field(default_factory=dict)
    """Service -> file with what its clock is off by."""
    plans: PlanFolder | None = None
    """Of failpoints."""
    disks: dict[Need, tuple[str, Path]] = field(default_factory=dict)
    """A small disk -> whose it is, and where it is mounted."""
    store: Path | None = None
    """Folder of the snapshots."""
    power: Power | None = None
    """Holds the stores of all servers."""

    def links_of(self, node: str) -> tuple[Link, ...]:
        """Return all ways between a node and the servers."""
        return (*self.nodes[node], *self.checkpointers[node])
