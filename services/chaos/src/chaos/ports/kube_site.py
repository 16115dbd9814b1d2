"""A system on Kubernetes as faults see it."""

from __future__ import annotations

from typing import Protocol

import msgspec


class KubeNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is ready."""

    name: str
    token: str
    """As records of sessions name it."""
    workers: int
    """Pods of the run's workers on it."""
    servers: tuple[str, ...]
    """NATS servers on it."""


class KubeSite(Protocol):
    """One system."""

    @property
    def fails_nodes(self) -> bool:
        """Whether nodes themselves can be failed; else all that runs on them is."""
        ...

    def now(self) -> float:
        """Return the injector's clock: seconds since the run began, monotonic."""
        ...

    async def nodes(self) -> list[KubeNode]:
        """Return the nodes that are ready.

        Raises:
            ServiceError: the API server does not answer.
        """
        ...

    async def leaders(self, *streams: str) -> dict[str, str]:
        """Return the server that leads each of the streams; those whose leader is not known are left out."""
        ...

    async def down(self, node: str) -> None:
        """Take a node down, or all that runs on it.

        Raises:
            ServiceError: it was not done.
        """
        ...

    async def up(self, node: str) -> None:
        """Bring a node back; nothing where it is up.

        Raises:
            ServiceError: it was not done.
        """
        ...

    async def end_pods(self, selector: str) -> list[str]:
        """End one pod of ours that a label selects, without grace; return its name, or nothing where there is none.

        Raises:
            ServiceError: it was not done.
        """
        ...
