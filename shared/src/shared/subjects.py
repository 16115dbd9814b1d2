"""Every subject of the system, built in one place.

Clients publish to the first group; the account's mappings turn them into the second, on which the servers check
permissions. The state shard is a token of its own because the servers' `partition` works on whole tokens only.
"""

from __future__ import annotations

from shared.ids import SHARDS, home

# --- what clients use --------------------------------------------------------------------------------------------


def task(tenant: str, pool: str, klass: str) -> str:
    """A new session or one-shot: the account's mapping picks a queue shard."""
    return f"task.{tenant}.{pool}.{klass}"


def session_task(tenant: str, session: str, task_id: str) -> str:
    """The next task of a session: mapped to its inbox."""
    return f"session.{tenant}.{session}.{task_id}"


def result(tenant: str, session: str, task_id: str) -> str:
    """Request here to read a stored result: mapped onto a direct get, 404 while there is none."""
    return f"result.{tenant}.{session}.{task_id}"


def done(tenant: str, session: str = "*", task_id: str = "*") -> str:
    """Results are heard here at the moment they are stored."""
    return f"done.{tenant}.{session}.{task_id}"


def output(tenant: str, session: str, task_id: str = "*") -> str:
    """Events of a task: started, output with offsets, recovered. Live, and stored in `OUT`."""
    return f"out.{tenant}.{session}.{task_id}"


def object_chunk(tenant: str, object_id: str, number: int) -> str:
    """One chunk of an object. Consecutive chunks lie in different shards: all leaders share the work."""
    return f"object.{number % SHARDS}.{tenant}.{object_id}.{number}"


def read_chunk(tenant: str, object_id: str, number: int) -> str:
    """Request here to read a chunk: mapped onto a direct get, 404 where there is none."""
    return f"chunk.{number % SHARDS}.{tenant}.{object_id}.{number}"


def cancel(tenant: str, session: str, task_id: str) -> str:
    """Request here to cancel a task at any stage."""
    return f"cancel.{tenant}.{session}.{task_id}"


def ask(tenant: str, what: str) -> str:
    """Request here to list or show sessions (`sessions`, `session`, `pools`), or to drop objects (`object_drop`)."""
    return f"ask.{tenant}.{what}"


def state_stream(shard: int) -> str:
    """Name of a state stream."""
    return str(shard)


def record(pool: str, tenant: str, session: str) -> str:
    """The session's record."""
    return f"s.{home(session)}.rec.{pool}.{tenant}.{session}"


def any_pool_record(tenant: str, session: str) -> str:
    """Filter that finds a session's record without knowing its pool."""
    return f"s.{home(session)}.rec.*.{tenant}.{session}"


def payload(pool: str, tenant: str, session: str) -> str:
    """The raw body of the session's first task, written once with the record."""
    return f"s.{home(session)}.job.{pool}.{tenant}.{session}"


def workspace_head(pool: str, tenant: str, session: str) -> str:
    """What is retained of the session's workspace. Checkpointers alone write it."""
    return f"s.{home(session)}.ws.{pool}.{tenant}.{session}"


def stored_result(tenant: str, session: str, task_id: str) -> str:
    """Where a result is stored (exactly one per task)."""
    return f"s.{home(session)}.done.{tenant}.{session}.{task_id}"


RECORDS_LIVE = "rec.>"
"""Records are heard here, whole, at the moment they are stored."""


def record_live(pool: str) -> str:
    """Records of one pool, live."""
    return f"rec.{pool}.>"


WORKSPACES_LIVE = "ws.>"
"""Workspace heads are heard here, whole, at the moment they are stored."""


def inbox_stream(shard: int) -> str:
    """Name of an inbox stream."""
    return f"I{shard}"


def inbox(tenant: str, session: str, task_id: str = "*") -> str:
    """A session's inbox entries."""
    return f"in.{home(session)}.{tenant}.{session}.{task_id}"


def wake(tenant: str = "*", session: str = "*") -> str:
    """Headers of new inbox entries are heard here."""
    return f"wake.{tenant}.{session}"


def object_stream(shard: int) -> str:
    """Name of an object stream."""
    return f"O{shard}"


def queue_stream(shard: int) -> str:
    """Name of a queue stream."""
    return f"Q{shard}"


def queue(shard: int, tenant: str, pool: str, klass: str) -> str:
    """One tenant's lane in one queue shard."""
    return f"q.{shard}.{tenant}.{pool}.{klass}"


def consumer(pool: str, klass: str) -> str:
    """Durable pull consumer of a pool's class, one on each queue shard."""
    return f"{pool}-{klass}"


def bell(pool: str, klass: str, shard: int) -> str:
    """Rung by the queue stream for each new message; idle workers listen in one queue group."""
    return f"bell.{pool}.{klass}.{shard}"


def bells(pool: str) -> str:
    """All bells of a pool."""
    return f"bell.{pool}.*.*"


def parse_bell(subject: str) -> tuple[str, str, int]:
    """Return (pool, class, shard) of a bell."""
    _, pool, klass, shard = subject.split(".")
    return pool, klass, int(shard)


def parse_queue(subject: str) -> tuple[int, str, str, str]:
    """Return (shard, tenant, pool, class) of a queue subject."""
    _, shard, tenant, pool, klass = subject.split(".")
    return int(shard), tenant, pool, klass


def parse_record(subject: str) -> tuple[str, str, str]:
    """Return (pool, tenant, session) of a record's subject, stored or live."""
    pool, tenant, session = subject.split(".")[-3:]
    return pool, tenant, session


def parse_task(subject: str) -> tuple[str, str, str]:
    """Return (tenant, session, task) of an inbox, result, output or cancel subject: its last three tokens."""
    tenant, session, task_id = subject.split(".")[-3:]
    return tenant, session, task_id


# --- pods, nodes, control ----------------------------------------------------------------------------------------

OUTPUT_STREAM = "OUT"
DEAD_LETTER_STREAM = "DLQ"


def slot_stream(shard: int) -> str:
    """Name of a stream of slots."""
    return f"P{shard}"


def slot_shard(name: str) -> int:
    """Return the shard of a slot, so that the loss of a server stops the refill of a third of them.

    A slot of the stock is a number; one of a queue message, `d<shard>-<seq>`, lies where its message does.
    """
    if name.isdecimal():
        return int(name) % SHARDS
    queue_shard = name[1:].partition("-")[0]
    return int(queue_shard) % SHARDS if queue_shard.isdecimal() else home(name)


def slot(pool: str, name: str) -> str:
    """One place of a pool: the compare-and-set on it reserves the name of its next pod."""
    return f"slot.{slot_shard(name)}.{pool}.{name}"


STOCK = "stock"  # in place of a slot's name: the record of what was decided for a pool's stock


def slot_live(pool: str) -> str:
    """Slot records are heard here when stored."""
    return f"slots.{pool}.*"


def dead_letter(tenant: str, pool: str) -> str:
    """Where messages go that cannot become a task."""
    return f"dlq.{tenant}.{pool}"


def heartbeat(pool: str, worker: str = "*") -> str:
    """A worker's heartbeat (core NATS)."""
    return f"hb.{pool}.{worker}"


def node_heartbeat(node: str = "*") -> str:
    """A node's heartbeat (core NATS)."""
    return f"hbn.{node}"


def manager_heartbeat(manager: str = "*") -> str:
    """A pool-manager says to the others that it lives (core NATS)."""
    return f"hbm.{manager}"


FULL = "full"
"""A pool-manager says which tenants have as many sessions as they may (core NATS)."""


def gone(pool: str, pod: str = "*") -> str:
    """A node says: all processes of this pod are gone."""
    return f"gone.{pool}.{pod}"


def node_create(node: str) -> str:
    """Request to a node: start this pod."""
    return f"node.{node}.create"


def node_delete(node: str) -> str:
    """Request to a node: end this pod."""
    return f"node.{node}.delete"


def checkpoint(node: str, worker: str) -> str:
    """Request to a node's checkpointer: save or restore this worker's workspace. Only that worker may publish here."""
    return f"ckpt.{node}.{worker}"


def rescue(node: str) -> str:
    """Request to a node's checkpointer: save the workspace of a pod that died."""
    return f"ckpt.{node}.rescue"


def any_checkpointer(op: str) -> str:
    """Request that needs no pod, to whichever checkpointer is up: `fork`, `list`, `delete`, …"""
    return f"ckpt.any.{op}"


def checkpointer_heartbeat(node: str = "*") -> str:
    """A node's checkpointer says that it lives, and how its store is (core NATS)."""
    return f"hbc.{node}"


def spans(pool: str = "*", worker: str = "*") -> str:
    """Spans of a worker's attempts, or of a checkpointer's jobs by its node's name, for whichever pool-manager exports them (core NATS)."""
    return f"span.{pool}.{worker}"


def renew(pool: str = "*", worker: str = "*") -> str:
    """Request by a worker to the pool-managers: its credential ends soon. Only that worker may publish here."""
    return f"renew.{pool}.{worker}"


def enroll(pool: str = "*", pod: str = "*") -> str:
    """Request by a new pod to the pool-managers: a credential of its own, for a proof of which pod it is."""
    return f"enroll.{pool}.{pod}"


def volume(pool: str = "*", op: str = "*", pod: str = "*") -> str:
    """Request to a pool's keepers: `make` a pod's folder on its volume, `take` a session's files into that."""
    return f"vol.{pool}.{op}.{pod}"


def control(worker: str) -> str:
    """Requests to a bound worker."""
    return f"ctl.{worker}"


def terminal(worker: str, tenant: str = "*", session: str = "*", task_id: str = "*") -> str:
    """Requests to the worker that runs a task in a terminal (it is named in `started`): what is typed, another size."""
    return f"tty.{worker}.{tenant}.{session}.{task_id}"


SHARDS_DOWN = "shards"
"""Pool-managers say here which state shards have no leader, while that lasts."""

# Queue groups: of idle workers on their pool's bells; of services of which one answers each request.
IDLE_GROUP, MANAGER_GROUP, CHECKPOINTER_GROUP = "idle", "pool-manager", "checkpointer"
