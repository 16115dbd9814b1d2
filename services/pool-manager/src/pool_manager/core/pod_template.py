"""What all pods of a Kubernetes cluster have in common: the file that `POOL_KUBERNETES_FILE` names."""

from __future__ import annotations

import tomllib
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from shared.errors import InvalidMessage

Name = Annotated[str, Meta(pattern="^[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?$")]
PodClass = Literal["oci", "gvisor", "kata"]
"""The isolation classes that a pod on Kubernetes can have."""


class Quantities(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a container asks for and may have at most."""

    cpu: Annotated[float, Meta(gt=0)] = 0.05
    """Cores that it asks for."""
    cpu_max: Annotated[float, Meta(gt=0)] = 1.0
    memory_mib: Annotated[int, Meta(ge=16)] = 64
    """MiB that it asks for."""
    memory_max_mib: Annotated[int, Meta(ge=16)] = 128


class PodTemplate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Names, images and places of worker pods. Sizes of the sandbox are the pool's."""

    namespace: Name
    """Where worker pods live; nothing else should."""
    worker_image: str
    """Image of the sidecar."""
    sandbox_image: str
    """Image of the sandbox, unless a pool names its own."""
    services_image: str = ""
    """Image of the keepers of volumes; needed for pools with `workspace = "pvc"` only."""
    image_pull_policy: Literal["IfNotPresent", "Always", "Never"] = "IfNotPresent"
    image_pull_secrets: tuple[Name, ...] = ()
    service_account: Name = "agent-sandbox-worker"
    """Of worker pods; it may do nothing. Its token proves which pod asks for a credential."""
    enrol_secret: Name = "agent-sandbox-enroller"  # noqa: S105 - a name
    """Secret with the credential with which pods ask for their own."""
    nats_servers: Annotated[tuple[str, ...], Meta(min_length=1)]
    """Addresses of the NATS servers as pods reach them."""
    nats_ca_config_map: str = ""
    """ConfigMap with `ca.crt`, where servers speak TLS; empty: they do not."""
    runtime_classes: dict[PodClass, str] = msgspec.field(
        default_factory=lambda: {"oci": "", "gvisor": "gvisor", "kata": "kata"}
    )
    """Isolation class -> RuntimeClass. An empty name: the nodes' own runtime, which must be runc or like it."""
    user_namespaces: bool | None = None
    """`hostUsers: false` for class `oci`. Unset: where every node that may have such a pod says that it can."""
    seccomp_profile: str = ""
    """A profile on the nodes, below the kubelet's seccomp folder, for the sandbox; empty: RuntimeDefault."""
    priority_class: str = ""
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    """As in a pod."""
    capacity: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    """Worker pods of all pools at once."""
    sidecar: Quantities = Quantities()
    sandbox_cpu: Annotated[float, Meta(gt=0)] = 0.05
    """Cores that a sandbox asks for; what it may have at most is the pool's."""
    sandbox_memory_mib: Annotated[int, Meta(ge=16)] = 64
    """MiB that a sandbox asks for; what it may have at most is the pool's."""
    tmp_mib: Annotated[int, Meta(ge=1)] = 64
    """Size of a sandbox's `/tmp` and `/dev/shm` together, MiB; it counts as its memory."""
    checkpointer: bool = True
    """Each node has a checkpointer. Without one nothing of a workspace is saved."""
    stop_grace_s: Annotated[int, Meta(ge=1, le=600)] = 30
    """Between the order to end a pod and its kill: a worker that has a session saves it and hands it over."""
    issuer: str = ""
    """Issuer of the pods' tokens; empty: the one that the API server names."""


def parse_template(text: str) -> PodTemplate:
    """Read a template from TOML.

    Raises:
        InvalidMessage: not TOML, or a field that is missing, unknown or out of its limit (named).
    """
    try:
        return msgspec.convert(tomllib.loads(text), PodTemplate)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as exc:
        raise InvalidMessage(f"pod template: {exc}") from exc
