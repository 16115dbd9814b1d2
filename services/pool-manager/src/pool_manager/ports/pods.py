"""Who starts and ends pods."""

from __future__ import annotations

from typing import Protocol

from shared.errors import Unavailable
from shared.messages import PodSpec


class NotAllowed(Unavailable):
    """Not one more pod of this pool may be started now: a quota or a rule forbids it."""

    code = "not_allowed"


class Pods(Protocol):
    """Where pods are started and ended: local nodes, or Kubernetes."""

    async def create(self, spec: PodSpec) -> None:
        """Start a pod; asking twice under one name starts it once.

        Raises:
            NotAllowed: no pod of the pool may be started now.
            Unavailable: the node surely did not start it.
            Rejected: it will not, however often it is asked.
            OutcomeUnknown: no answer; it may have started.
        """
        ...

    async def delete(self, node: str, pod: str, grace_s: float) -> None:
        """End a pod; one that is gone already is no error."""
        ...
