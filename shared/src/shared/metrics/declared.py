"""Every metric of every service, as data. `docs/metrics.md` is made from it.

Times are seconds. No id is ever a label: each label's values are few and known (`LABELS`), so that nobody who sends
tasks can make a service's memory, or a monitoring system's, grow.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Service = Literal[
    "pool-manager",
    "local-node",
    "client-edge",
    "gateway",
    "worker-agent",
    "checkpointer",
    "provisioner",
    "volume-keeper",
]
Kind = Literal["counter", "gauge", "histogram"]

FAST_S: Final = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0,
)  # fmt: skip
"""Buckets of what takes milliseconds as long as all is well."""
WAIT_S: Final = (0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0)
"""Buckets of what waits for a turn, or runs user code: up to a day."""
AGE_S: Final = (1.0, 5.0, 10.0, 20.0, 30.0, 32.0, 35.0, 40.0, 60.0, 90.0, 120.0, 300.0, 1800.0)
"""Buckets of the age of snapshots, close around the 30 s between two of them."""
RECOVERY_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.5, 7.0, 10.0, 15.0, 30.0, 60.0)
"""Buckets of detection and recovery, close around what is promised: 1, 4.5, 7 and 15 s."""

LABELS: Final = {
    "pool": "name of a declared pool",
    "class": "`recovery`, `interactive` or `batch`",
    "path": "`warm`: a worker that waited took it; `on-demand`: it waited for a pod; `bound`: its session had a worker",
    "status": "a result's status (`docs/results.md`)",
    "cause": "what was seen: `process_exit`, `disconnect`, `heartbeats_missed`, … (`docs/results.md`)",
    "phase": "`starting`, `warm` or `bound`",
    "state": "a record's state; of nodes `alive` or `silent`",
    "outcome": "of pods `asked`, `refused` or `unanswered`; of jobs and requests `done`, `cancelled` or an error's code",
    "op": "`save`, `restore`, `rescue`, `look` or `retain`; of bad packs also `scrub`; of volumes `make`, `take` or `other`",
    "reason": "which bound or fault it was; of bad packs `damaged` or `missing`; of inputs that differ which source said more",
    "method": "`GET`, `POST`, `PUT`, `DELETE`, `WEBSOCKET`, …; a strange one is `other`",
    "route": "a route's template, `/v1/tasks/{task:str}`; what is refused before any route is `refused`",
    "code": "the answer's status code; 0: the asker was gone before there was one",
    "direction": "`in`: from clients; `out`: to clients",
    "check": "what readiness asks for: `start`, `nats`, `shards`, `server`, `cluster`, `volume`",
}
"""What each label's values are."""


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One metric."""

    name: str
    """As it is exported; ends in its unit, a counter's in `_total`."""
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets."""
    over: Literal["sum", "max", "each"] = "sum"
    """How to put replicas together. `max`: each of them tells the same, as it sees it; a sum would count it twice."""


def _histogram(
    name: str, help_: str, labels: tuple[str, ...], buckets: tuple[float, ...]
) -> Metric:
    return Metric(
        name=f"agent_sandbox_{name}_seconds",
        kind="histogram",
        help=help_,
        labels=labels,
        buckets=buckets,
    )


def _counter(name: str, help_: str, *labels: str) -> Metric:
    return Metric(name=f"agent_sandbox_{name}_total", kind="counter", help=help_, labels=labels)


def _gauge(name: str, help_: str, *labels: str) -> Metric:
    return Metric(
        name=f"agent_sandbox_{name}", kind="gauge", help=help_, labels=labels, over="each"
    )


def _seen(metric: Metric) -> Metric:
    """Return a metric of which every replica tells the whole."""
    return msgspec.structs.replace(metric, over="max")


# --------------------------------------------------------------------------------------------------------- every service
READY = _gauge("ready", "1 while the service can do its work, as `/readyz` says; else 0.")
UNREADY = _gauge("unready", "1 for each thing that keeps the service from being ready.", "check")
LOOP_LATE = _histogram(
    "event_loop_lag", "How late the event loop came to what was due; looked at 4 times a second.", (), FAST_S
)  # fmt: skip
BUS_CONNECTED = _gauge("bus_connected", "1 while there is a connection to a NATS server; else 0.")
BUS_CONTACT = _gauge(
    "bus_contact_age_seconds", "Since the newest question that a NATS server has answered was sent."
)
COMMON: Final = (READY, UNREADY, LOOP_LATE)
ON_THE_BUS: Final = (BUS_CONNECTED, BUS_CONTACT)

# ---------------------------------------------------------------------------------------------------------- pool-manager
TTI = _histogram(
    "task_tti",
    "Time to interactive of new sessions, by the servers' stamps: task accepted to first instruction of user code.",
    ("pool", "path"),
    FAST_S,
)
QUEUE_WAIT = _histogram(
    "queue_wait", "Task accepted to its hand-over to a worker.", ("pool", "path"), WAIT_S
)
CLAIM = _histogram(
    "claim_duration", "Hand-over to a worker to its claim of the session.", ("pool",), FAST_S
)
RESTORE = _histogram(
    "restore_duration", "Claim to all of a task's files in the workspace; tasks with files.", ("pool",), FAST_S
)  # fmt: skip
START = _histogram(
    "start_duration", "Claim, or files in, to the first instruction of user code.", ("pool",), FAST_S
)  # fmt: skip
RUN = _histogram("run_duration", "First instruction of user code to its end.", ("pool",), WAIT_S)
COMMIT = _histogram("commit_duration", "End of user code to the stored result.", ("pool",), FAST_S)
RESULTS = _counter("results", "Results stored, whoever wrote them.", "pool", "status")
DETECT = _histogram(
    "recovery_detect",
    "Last sign of life of an owner to the revocation of its epoch: an upper bound of the time to detect.",
    ("pool", "cause"),
    RECOVERY_S,
)
RECOVERY = _histogram(
    "recovery_total",
    "Last sign of life of an owner to the first instruction of the task's next attempt.",
    ("pool", "cause"),
    RECOVERY_S,
)
STOCK = _seen(_gauge("pool_stock_pods", "Warm pods that the pool is to hold.", "pool"))
PODS = _seen(_gauge("pool_pods", "Pods of the pool.", "pool", "phase"))
DEMAND = _seen(
    _counter("demand", "Messages stored in the pool's lanes: what wants a worker.", "pool", "class")
)
WAITING = _seen(
    _gauge("lane_messages", "Messages in the pool's lanes, those in workers' hands included.", "pool", "class")
)  # fmt: skip
SESSIONS = _seen(_gauge("sessions", "Sessions that have not ended.", "pool", "state"))
IDLE = _seen(_counter("idle_pod_seconds", "Seconds that warm pods waited, all together.", "pool"))
POOL_RATE = _seen(
    _gauge("pool_activations_per_second", "Demand that the stock of a pool with a promise is made from.", "pool")
)  # fmt: skip
POOL_DISPERSION = _seen(
    _gauge("pool_dispersion_ratio", "How bursty that demand is: 1 for arrivals at random.", "pool")
)
POOL_Z = _seen(
    _gauge("pool_z_ratio", "Standard deviations above the expected demand that the stock holds.", "pool")
)  # fmt: skip
POOL_START_MEAN = _seen(
    _gauge("pool_start_mean_seconds", "Mean of the start-ups that the stock is made from.", "pool")
)
POOL_COLD = _seen(
    _gauge("pool_cold_ratio", "Share of about the last hour's activations that waited for a pod.", "pool")
)  # fmt: skip
POOL_COLD_PROMISED = _seen(
    _gauge("pool_cold_promised_ratio", "Share of activations that may wait for a pod.", "pool")
)
POOL_DIFFER = _counter(
    "pool_inputs_differ",
    "Messages by which two sources of a pool's demand differed: bells against lanes.",
    "pool",
    "reason",
)
POD_STARTS = _counter("pod_starts", "Pods that nodes were asked for.", "pool", "outcome")
POD_START = _histogram(
    "pod_start_duration", "Pod asked for to its worker's first heartbeat.", ("pool",), FAST_S
)
NODES = _seen(_gauge("nodes", "Nodes that are known.", "state"))
SHARDS_DOWN = _seen(_gauge("state_shards_down", "State shards whose leader does not answer."))
MANAGERS = _seen(_gauge("pool_managers", "Pool-managers that are heard, this one included."))

# ------------------------------------------------------------------------------------------------------------ local-node
NODE_PODS = _gauge("node_pods", "Pods of this node.")
NODE_CAPACITY = _gauge("node_pods_max", "Pods that this node may have at once.")
NODE_ENDED = _counter("node_pods_ended", "Pods of this node that ended.", "cause")
NODE_START = _histogram(
    "node_pod_start_duration", "Both halves of a pod started, confinement included.", (), FAST_S
)

# ---------------------------------------------------------------------------------------------------------- checkpointer
CHECKPOINT_JOBS = _counter(
    "checkpoint_jobs", "Saves, restores and rescues that ended.", "op", "outcome"
)
CHECKPOINT_DURATION = _histogram(
    "checkpoint_job_duration", "Job begun to its end, waiting for its turn included.", ("op",), FAST_S
)  # fmt: skip
CHECKPOINT_BYTES = _counter(
    "checkpoint_bytes", "Bytes of files that jobs read from workspaces or wrote into them.", "op"
)
CHECKPOINT_INTERVAL = _histogram(
    "checkpoint_interval",
    "From one snapshot in a task to the next: the most work that the death of the node would have taken.",
    (),
    AGE_S,
)
CHECKPOINT_AGE = _gauge(
    "checkpoint_age_max_seconds", "Age of the oldest snapshot of a session whose save is under way or failed; 0: none."
)  # fmt: skip
CHECKPOINTS_LATE = _gauge(
    "checkpoints_late", "Sessions whose snapshot is older than the bound: alarm when it is not 0."
)
CHECKPOINT_PACKS_BAD = _counter(
    "checkpoint_packs_bad",
    "Packs that were found damaged, or gone though the store had taken them, each time they are found: alarm when it grows.",
    "op",
    "reason",
)
CHECKPOINT_STORE_UP = _gauge(
    "checkpoint_store_up", "1 while the store of packs can be used; else 0."
)

# --------------------------------------------------------------------------------------------------------- volume-keeper
VOLUME_REQUESTS = _counter(
    "volume_requests", "Folders that were asked for, and moved or not.", "pool", "op", "outcome"
)
VOLUME_DURATION = _histogram(
    "volume_request_duration", "Request to its answer, of those that were done.", ("pool", "op"), FAST_S
)  # fmt: skip
VOLUME_HANGING = _gauge(
    "volume_calls_hanging", "Calls to the volume that have not come back for 5 s: alarm when it is not 0.", "pool"
)  # fmt: skip
VOLUME_SESSIONS = _seen(
    _gauge("volume_sessions", "Sessions that have a folder on the volume.", "pool")
)
VOLUME_SIZE = _seen(_gauge("volume_size_bytes", "Size of the volume.", "pool"))
VOLUME_FREE = _seen(_gauge("volume_free_bytes", "Of that, what is free.", "pool"))

# ----------------------------------------------------------------------------------------------------------- client-edge
EDGE_OPEN = _gauge("edge_connections", "Clients that are connected.")
EDGE_ACCEPTED = _counter("edge_accepted", "Connections that clients made.")
EDGE_REFUSED = _counter("edge_refused", "Connections that were turned away or cut.", "reason")
EDGE_MESSAGES_REFUSED = _counter("edge_messages_refused", "Messages that were not let through.")
EDGE_BYTES = _counter("edge_bytes", "Bytes that were passed on.", "direction")
EDGE_HALF_SENT = _gauge("edge_half_sent_bytes", "Bytes of messages of which a part is here only.")

# --------------------------------------------------------------------------------------------------------------- gateway
HTTP_REQUESTS = _counter("http_requests", "Requests that were answered.", "method", "route", "code")
HTTP_DURATION = _histogram(
    "http_request_duration", "Request to the first byte of its answer.", ("method", "route"), FAST_S
)
HTTP_OPEN = _gauge("http_requests_open", "Requests under way, streams among them.")
GATEWAY_TENANTS = _gauge("gateway_tenants", "Tenants that may come in.")
GATEWAY_STREAMS = _gauge(
    "gateway_streams_open", "Streams of events that are open, of all tenants together."
)
GATEWAY_TENANTS_OLD = _gauge(
    "gateway_tenants_old",
    "1 while the tenants' file is gone or can't be read, and what was read of it last holds; else 0.",
)

DECLARED: Final[dict[Service, tuple[Metric, ...]]] = {
    "pool-manager": (
        *COMMON, *ON_THE_BUS, TTI, QUEUE_WAIT, CLAIM, RESTORE, START, RUN, COMMIT, RESULTS, DETECT, RECOVERY, STOCK,
        PODS, DEMAND, WAITING, SESSIONS, IDLE, POD_STARTS, POD_START, POOL_RATE,
        POOL_DISPERSION, POOL_Z, POOL_START_MEAN, POOL_COLD, POOL_COLD_PROMISED, POOL_DIFFER, NODES, SHARDS_DOWN, MANAGERS,
    ),
    "local-node": (*COMMON, *ON_THE_BUS, NODE_PODS, NODE_CAPACITY, NODE_ENDED, NODE_START),
    "client-edge": (
        *COMMON, EDGE_OPEN, EDGE_ACCEPTED, EDGE_REFUSED, EDGE_MESSAGES_REFUSED, EDGE_BYTES, EDGE_HALF_SENT,
    ),
    "gateway": (
        *COMMON, HTTP_REQUESTS, HTTP_DURATION, HTTP_OPEN, GATEWAY_TENANTS, GATEWAY_STREAMS, GATEWAY_TENANTS_OLD,
    ),
    "worker-agent": (*COMMON, *ON_THE_BUS),
    "checkpointer": (
        *COMMON, *ON_THE_BUS, CHECKPOINT_JOBS, CHECKPOINT_DURATION, CHECKPOINT_BYTES, CHECKPOINT_INTERVAL, CHECKPOINT_AGE,
        CHECKPOINTS_LATE, CHECKPOINT_PACKS_BAD, CHECKPOINT_STORE_UP,
    ),
    "provisioner": COMMON,
    "volume-keeper": (
        *COMMON, *ON_THE_BUS, VOLUME_REQUESTS, VOLUME_DURATION, VOLUME_HANGING, VOLUME_SESSIONS, VOLUME_SIZE, VOLUME_FREE,
    ),
}  # fmt: skip
"""Which service exports what."""
