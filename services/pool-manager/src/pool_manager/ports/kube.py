"""What the loops need of a Kubernetes cluster, beside `Pods`. Writes are tried once; errors as for the other ports."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from shared.kube.events import Watched
from shared.kube.views import NodeView, PodView, RuntimeClassView


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """Which pod a token was written for, as the cluster vouches."""

    pod: str
    uid: str
    node: str = ""
    """Empty: the cluster does not say it."""


class Watches(Protocol):
    """What there is, and what changes; endless."""

    def pods(self) -> AsyncIterator[Watched[PodView]]:
        """Watch the worker pods."""
        ...

    def nodes(self) -> AsyncIterator[Watched[NodeView]]:
        """Watch the nodes."""
        ...

    def runtimes(self) -> AsyncIterator[Watched[RuntimeClassView]]:
        """Watch the runtime classes."""
        ...


class Remover(Protocol):
    """Ends pods that are of no use, by their uid: never a successor of the same name."""

    async def remove(self, pod: str, uid: str, *, forced: bool) -> None:
        """End a pod; one that is gone already is no error.

        Args:
            pod: its name.
            uid: of this very pod.
            forced: its node is dead: forget it without waiting for that node.
        """
        ...

    async def retire(self, pod: str, uid: str) -> None:
        """End a pod that may have got a session just now: it has time to hand that over."""
        ...


class Proofs(Protocol):
    """Tells pods by their tokens."""

    async def prove(self, token: str) -> Proof:
        """Return which pod a token was written for.

        Raises:
            Forbidden: it is no good token of a worker pod (why is said).
            Unavailable: that can't be checked now.
        """
        ...
