"""What the provisioner needs of the Kubernetes API."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

Keeper = Literal["Secret", "ConfigMap"]
Workload = Literal["Deployment", "StatefulSet"]


class Place(msgspec.Struct, frozen=True):
    """A Secret or ConfigMap."""

    kind: Keeper
    namespace: str
    name: str

    def __str__(self) -> str:
        """Name it for people."""
        return f"{self.kind} {self.namespace}/{self.name}"


class Held(msgspec.Struct, frozen=True):
    """What it holds."""

    data: dict[str, bytes]
    version: str
    """By which a write finds out that somebody else was first."""


class Objects(Protocol):
    """Secrets, ConfigMaps, and the templates of workloads."""

    async def read(self, place: Place) -> Held | None:
        """Return what it holds, None where there is none.

        Raises:
            ServiceError: it can't be read.
        """

    async def write(self, place: Place, data: dict[str, bytes], version: str | None) -> None:
        """Create it (`version` None), or replace what that version held.

        Raises:
            Conflict: somebody else was first.
            ServiceError: it can't be written.
        """

    async def template_mark(self, kind: Workload, namespace: str, name: str) -> str | None:
        """Return the mark of a workload's pods; empty: they have none; None: there is no such workload.

        Raises:
            ServiceError: it can't be read.
        """

    async def mark_template(self, kind: Workload, namespace: str, name: str, mark: str) -> None:
        """Give a workload's pods a mark; with another one Kubernetes replaces them, one after another.

        Raises:
            ServiceError: it can't be changed.
        """
