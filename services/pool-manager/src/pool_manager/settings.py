"""Settings of a pool-manager, from variables that start with `POOL_`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from pool_manager.core.lost import Bounds
from pool_manager.core.plan import Times
from pool_manager.core.quota import Quotas
from shared import limits
from shared.traces.context import Sampling

PREFIX = "POOL_"
DAY_S = 24 * 3600

Count = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0, le=24 * 3600)]


class PoolSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a pool-manager must know."""

    nats_servers: Annotated[tuple[str, ...], Meta(min_length=1)]
    """Addresses of the NATS servers; workers are given the same."""
    nats_ca_file: str | None = None
    """Certificates of the authorities that vouch for the servers, PEM; None: they speak plain TCP."""
    credential_file: str
    """Credential of this pool-manager (role `pool_manager` of the same `name`). Read again when it ends soon."""
    signer_file: str
    """JSON of `shared.identity.WorkerSigner` (account and signing seed): mints workers, nobody else."""
    pools_file: str
    """Pool declarations, TOML."""
    name: Annotated[str, Meta(pattern="^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$")]
    """This replica's name among the pool-managers."""
    system_credential_file: str | None = None
    """Credential in the servers' own account: hears disconnects, which finds crashes of workers sooner."""
    ready_file: str | None = None
    """A file that exists exactly while it is ready."""
    probes: str | None = None
    """`host:port` of `/livez`, `/readyz` and `/metrics`, port 0 for a free one; None: there are none."""
    probes_url_file: str | None = None
    """Holds the URL of the probes while they are there."""
    log_level: str = "info"
    drain_s: Seconds = 5.0
    """Longest orderly end after SIGTERM."""
    connect_s: Seconds = 30.0
    """How long the servers may take to answer at the start."""
    worker_valid_s: Annotated[float, Meta(ge=2, le=30 * 24 * 3600)] = 3600.0
    """Seconds for which a worker's credential is valid. It renews it at 0.7 to 0.8 of that time; one whose pod is gone
    can be used until it ends."""
    pods: Literal["nodes", "kubernetes"] = "nodes"
    """Who runs pods: our own nodes, or a Kubernetes cluster."""
    kubernetes_file: str | None = None
    """What all pods of the cluster have in common, TOML (docs/kubernetes.md)."""
    kubeconfig: str | None = None
    """How the cluster is reached; None: by the service account of the pod that this runs in."""
    pending_s: Seconds = 300.0
    """A pod on Kubernetes that has not started after so long is replaced: its reason may be gone with it."""
    start_s: Seconds | None = None
    """A pod that was not heard for so long after its start is replaced; None: 10, on Kubernetes 60, where the start of its
    container counts and many may start at once."""
    spare_s: Seconds = 10.0
    """A warm pod that no slot wants (any more) is ended after so long."""
    suspect_s: Seconds = 1.5
    """T_suspect: a bound worker that was silent for so long gets no trust; one that does not name its session in that
    time loses it."""
    fence_s: Seconds = 4.0
    """T_fence: a bound worker that was silent for so long has its epoch revoked."""
    disconnect_s: Seconds = 0.3
    """A worker that dropped its connection and is not heard again for so long has its epoch revoked."""
    worker_log_level: str = "info"
    worker_probes: str | None = None
    """`host:port` of the workers' own probes, for pods that have a network address of their own; None: none."""
    tenant_sessions_max: Count = limits.TENANT_SESSIONS_MAX
    """Sessions of one tenant that have not ended; above it new ones are rejected."""
    inbox_entries_max: Count = limits.INBOX_ENTRIES_MAX
    """Tasks that may wait in one session's inbox; the newest above it are rejected."""
    tenant_object_bytes_max: Count = limits.TENANT_OBJECT_BYTES_MAX
    """Objects of one tenant; above it the oldest go."""
    tenant_inbox_entries_max: Count = limits.TENANT_INBOX_ENTRIES_MAX
    """Tasks of one tenant that may wait in all its inboxes of one shard."""
    failpoints: str | None = None
    """For tests: folder of placed faults (`shared.failpoints`), also for the workers that it starts."""
    unknown_after_s: Annotated[float, Meta(gt=0, le=DAY_S)] = float(DAY_S)
    """A task of a session that has no record is refused when it is so old. Shorter only in tests: the session's own first
    task may wait that long."""
    kept_s: Annotated[float, Meta(gt=0)] = float(limits.ENDED_KEPT_S)
    """Results and ended records are removed after so long: the time within which a task's id runs once."""
    survey_s: Annotated[float, Meta(gt=0, le=60)] = 10.0
    """Between two looks into all inboxes that hold something."""


def of_workers(settings: PoolSettings, sampling: Sampling | None) -> dict[str, str]:
    """Return the settings of every worker."""
    common = {
        "WORKER_FENCE_S": str(settings.fence_s),
        "WORKER_LOG_LEVEL": settings.worker_log_level,
    }
    if settings.worker_probes is not None:
        common["WORKER_PROBES"] = settings.worker_probes
    if sampling is not None:
        common["WORKER_TRACE_RATIO"] = str(sampling.ratio)
        common["WORKER_TRACE_HEEDS_PARENT"] = str(sampling.heeds_parent).lower()
    if settings.failpoints is not None:
        common["WORKER_FAILPOINTS"] = settings.failpoints
    return common


def quotas_of(settings: PoolSettings) -> Quotas:
    """Return what each tenant may have."""
    return Quotas(
        sessions_max=settings.tenant_sessions_max,
        inbox_entries_max=settings.inbox_entries_max,
        tenant_inbox_entries_max=settings.tenant_inbox_entries_max,
    )


def times_of(settings: PoolSettings) -> Times:
    """Return after how long pods are replaced, and ended."""
    start_s = 10.0 if settings.pods == "nodes" else 60.0
    return Times(start_s=settings.start_s or start_s, spare_s=settings.spare_s)


def bounds_of(settings: PoolSettings) -> Bounds:
    """Return after how long silence is what."""
    return Bounds(
        suspect_s=settings.suspect_s,
        fence_s=settings.fence_s,
        disconnect_s=settings.disconnect_s,
    )
