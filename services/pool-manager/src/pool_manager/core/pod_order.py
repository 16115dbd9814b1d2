"""Which pod is to be started."""

from __future__ import annotations

import msgspec

from pool_manager.core.pod_template import PodClass


class PodOrder(msgspec.Struct, frozen=True):
    """One pod that is to be started."""

    pod: str
    """Its name, and its worker's."""
    slot: str
    isolation: PodClass
    """Class that it must have: a key of the template's `runtime_classes`."""
    lanes: str = ""
    """Of the annotation."""
    user_namespace: bool = False
    """Its root is nobody on the node, and its processes are counted apart."""
    avoid: tuple[str, ...] = ()
    """Kubernetes nodes that are known to be dead before Kubernetes knows."""
