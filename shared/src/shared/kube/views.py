"""The few fields of Kubernetes objects that matter here, read from their JSON. Pure."""

from __future__ import annotations

from typing import Any

import msgspec


class Owner(msgspec.Struct, rename="camel"):
    """Who made an object."""

    kind: str = ""
    name: str = ""


class Meta(msgspec.Struct, rename="camel"):
    """What every object has."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: list[Owner] = []


class Condition(msgspec.Struct, rename="camel"):
    """One condition of a pod or a node."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


class Waiting(msgspec.Struct, rename="camel"):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class Running(msgspec.Struct, rename="camel"):
    """A container runs."""

    started_at: str | None = None


class Terminated(msgspec.Struct, rename="camel"):
    """How a container ended."""

    exit_code: int = 0
    signal: int | None = None
    reason: str = ""
    message: str = ""


class ContainerState(msgspec.Struct, rename="camel"):
    """One of three."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, rename="camel"):
    """One container as its kubelet says."""

    name: str
    restart_count: int = 0
    state: ContainerState = msgspec.field(default_factory=ContainerState)
    last_state: ContainerState = msgspec.field(default_factory=ContainerState)


class _PodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _PodStatus(msgspec.Struct, rename="camel"):
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []


class PodView(msgspec.Struct, rename="camel"):
    """A pod."""

    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)

    def container(self, name: str) -> ContainerStatus | None:
        """Return the status of a container, or of a sidecar among the init containers."""
        status = self.status
        for one in (*status.init_container_statuses, *status.container_statuses):
            if one.name == name:
                return one
        return None


class Taint(msgspec.Struct, rename="camel"):
    """Keeps pods from a node that do not tolerate it."""

    key: str
    value: str = ""
    effect: str = ""


class _NodeSpec(msgspec.Struct, rename="camel"):
    unschedulable: bool = False
    taints: list[Taint] = []


class RuntimeHandler(msgspec.Struct, rename="camel"):
    """What a node's container runtime can start containers with."""

    name: str = ""
    features: dict[str, Any] | None = None


class _NodeInfo(msgspec.Struct, rename="camel"):
    boot_id: str = msgspec.field(default="", name="bootID")


class _NodeStatus(msgspec.Struct, rename="camel"):
    conditions: list[Condition] = []
    node_info: _NodeInfo = msgspec.field(default_factory=_NodeInfo)
    runtime_handlers: list[RuntimeHandler] | None = None


class NodeView(msgspec.Struct, rename="camel"):
    """A node."""

    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)

    @property
    def is_ready(self) -> bool:
        """Whether Kubernetes takes it for alive, and would give it pods."""
        ready = any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)
        return ready and not self.spec.unschedulable


class Toleration(msgspec.Struct, rename="camel"):
    """Lets a pod on a node with a taint."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def covers(self, taint: Taint) -> bool:
        """Return whether a pod with this toleration goes on a node with that taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.operator == "Exists":
            return not self.key or self.key == taint.key
        return self.key == taint.key and self.value == taint.value


class Scheduling(msgspec.Struct, rename="camel"):
    """Which nodes have a runtime class."""

    node_selector: dict[str, str] = {}
    tolerations: list[Toleration] = []


class RuntimeClassView(msgspec.Struct, rename="camel"):
    """A runtime class."""

    metadata: Meta = msgspec.field(default_factory=Meta)
    handler: str = ""
    scheduling: Scheduling | None = None
