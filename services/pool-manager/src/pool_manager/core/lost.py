"""Who owns a session and lives no more: from heartbeats, disconnects and what nodes say.

A wrong verdict is safe (a revoked owner can write nothing), it only costs work. So every sign has its own bound, and
only what a living node says of its own processes counts as the death of a worker's process.
"""

from __future__ import annotations

from collections import deque

import msgspec

from pool_manager.core.nodes import Nodes
from pool_manager.core.rescues import LATE_S, Checkpointers
from pool_manager.core.table import Row, key_of
from shared.heads import OUT_OF_MEMORY
from shared.messages import PodGone, WorkerBeat
from shared.record import Death, Record

FORGET_S = 600.0
GONE_KEPT_S = 120.0
DROP_WINDOW_S = 1.0
MASS_MIN = 3
PROCESS_DIED = frozenset({"exited", "killed", "oom", "sandbox_lost", "absent"})
"""What a node says, or shows, of a pod that ended by itself or was killed by anybody but us.

Not `zygote_lost`: whatever killed a fork server took its pods along, and no task can have done it.
"""
CAUSES = {
    "exited": "process_exit",
    "killed": "process_exit",
    "oom": OUT_OF_MEMORY,
    "sandbox_lost": "process_exit",
    "node_restarted": "node_restarted",
    "zygote_lost": "zygote_lost",
    "node_lost": "node_lost",
}
"""How they are called in an interruption; others as `pod_…`."""
NODE, CHECKPOINTER = "n-", "ckpt-"
"""How the names of a node's and of its checkpointer's connection begin; its own name follows."""


class Bounds(msgspec.Struct, frozen=True):
    """Times of detection, seconds."""

    suspect_s: float = 1.5
    fence_s: float = 4.0
    disconnect_s: float = 0.3
    absent_s: float = 1.0
    """A node that does not name a pod so long after its session was claimed has lost it."""


class Worker(msgspec.Struct):
    """One worker as last heard."""

    name: str
    first_heard: float
    seen: float
    beat: WorkerBeat
    named: tuple[str, int] | None = None
    """(session's key, epoch) that a heartbeat named last, and when."""
    named_at: float = 0.0
    server: str | None = None
    dropped_at: float | None = None
    """When a server told that its connection ended."""


class Detector:
    """Keeps the signs of life; judges owners. Pure: times are arguments."""

    def __init__(
        self, nodes: Nodes, checkpointers: Checkpointers, bounds: Bounds, now: float
    ) -> None:
        """Start now; nobody is given up for silence until T_fence has passed."""
        self._nodes = nodes
        self._checkpointers = checkpointers
        self._bounds = bounds
        self._workers: dict[str, Worker] = {}
        self._gone: dict[str, tuple[PodGone, float]] = {}
        self._server_of: dict[str, str] = {}
        self._number_of: dict[str, int] = {}
        """Of their newest connections, as their servers count."""
        self._strangers: set[str] = set()
        """Clients that connected since the last tidying and were not heard as workers (yet)."""
        self._drops: dict[str, deque[tuple[float, str]]] = {}
        self._started = now

    def restart(self, now: float) -> None:
        """This detector was deaf for a while: it believes in silence only after T_fence again."""
        self._started = now

    @property
    def known_clients(self) -> int:
        """How many clients' servers are remembered."""
        return len(self._server_of)

    def worker(self, name: str | None) -> Worker | None:
        """Return what is known of a worker."""
        return None if name is None else self._workers.get(name)

    def heard_since(self, since: float) -> list[Worker]:
        """Return the workers that were heard since then and are not gone."""
        return [w for w in self._workers.values() if w.seen >= since and w.name not in self._gone]

    def is_gone(self, pod: str) -> bool:
        """Return whether a node said that the pod is no more."""
        return pod in self._gone

    def told_of(self, pod: str | None) -> PodGone | None:
        """Return what a node said of the end of a pod."""
        told = None if pod is None else self._gone.get(pod)
        return None if told is None else told[0]

    def heard(self, beat: WorkerBeat, now: float) -> None:
        """Take in a heartbeat."""
        if beat.worker in self._gone:
            return  # sent before its end, or not by that pod
        worker = self._workers.get(beat.worker)
        if worker is None:
            worker = self._workers[beat.worker] = Worker(beat.worker, now, now, beat)
        worker.seen, worker.beat = now, beat
        if beat.session is not None and beat.tenant is not None:
            worker.named = (key_of(beat.tenant, beat.session), beat.epoch)
            worker.named_at = now

    def gone(self, gone: PodGone, now: float) -> None:
        """Take in that all processes of a pod are gone."""
        self._gone.setdefault(gone.pod, (gone, now))

    def connected(self, worker: str, server: str, number: int = 0) -> None:
        """A server says that a client connected to it; the connection's number tells it from others there."""
        self._server_of[worker], self._number_of[worker] = server, number
        if worker not in self._workers:
            self._strangers.add(worker)
        if (known := self._workers.get(worker)) is not None:
            known.dropped_at = None

    def dropped(self, worker: str, server: str, now: float, number: int = 0) -> None:
        """A server says that a client's connection to it ended."""
        if self._server_of.get(worker, server) != server:
            return  # it has gone over to another server already
        if self._number_of.get(worker, number) != number:
            return  # or, to renew its credential, to another connection
        if worker.startswith(NODE):
            self._nodes.cut(worker.removeprefix(NODE), now)
        elif worker.startswith(CHECKPOINTER):
            self._checkpointers.cut(worker.removeprefix(CHECKPOINTER), now)
        drops = self._drops.setdefault(server, deque(maxlen=4096))
        drops.append((now, worker))
        while drops and now - drops[0][0] > DROP_WINDOW_S:
            drops.popleft()
        if (known := self._workers.get(worker)) is not None:
            known.dropped_at = now
            known.server = server

    def forget(self, now: float) -> None:
        """Drop what is too old to matter. Called a few times a minute."""
        strangers, self._strangers = self._strangers, set()
        for name in self._server_of.keys() - self._workers.keys() - strangers:
            self._forget_place(name)  # clients, not workers
        for name, (_, at) in list(self._gone.items()):
            if now - at > GONE_KEPT_S:
                del self._gone[name]
                self._workers.pop(name, None)
                self._forget_place(name)
        for worker in list(self._workers.values()):
            if now - worker.seen > FORGET_S:
                del self._workers[worker.name]
                self._forget_place(worker.name)

    def _forget_place(self, name: str) -> None:
        self._server_of.pop(name, None)
        self._number_of.pop(name, None)

    def judge(self, row: Row, now: float) -> Death | None:
        """Return why the owner of a session must be given up, or None if it may live."""
        record, bounds = row.record, self._bounds
        worker = self._workers.get(record.owner or "")
        last = max(worker.seen if worker else 0.0, row.since)
        silent_ms = round((now - last) * 1000)
        if (told := self._gone.get(record.owner or "")) is not None:
            said = told[0].cause
            cause = CAUSES.get(said, f"pod_{said}")
            # A worker that ends in order, its session not given back (a shard that did not answer for too long, say),
            # was not killed by its task.
            left = said == "exited" and told[0].exit_code == 0
            died = said in PROCESS_DIED and not left
            unsaved = _unsaved(worker, row)
            return Death(cause=cause, process_died=died, silent_ms=silent_ms, unsaved_bytes=unsaved)
        if record.state == "rescuing":
            cause = self._judge_rescue(row, now)
            return Death(cause=cause, process_died=False) if cause else None
        sign = self._by_node(row, now)
        if sign is None and now - self._started >= bounds.fence_s:
            sign = self._silence(row, worker, now)
        if sign is None:
            return None
        return Death(
            cause=sign,
            process_died=sign == "pod_absent",
            silent_ms=silent_ms,
            unsaved_bytes=_unsaved(worker, row),
        )

    def _judge_rescue(self, row: Row, now: float) -> str:
        """Return why a rescue is given up; empty: it goes on. Silence of a checkpointer counts as a worker's does."""
        record = row.record
        if now - row.since > (record.rescue_until_ms - record.claimed_ms) / 1000 + LATE_S:
            return "rescue_late"
        settled = now - max(row.since, self._started) > self._bounds.suspect_s
        if settled and self._checkpointers.is_silent(record.node, now):
            return "checkpointer_lost"
        return ""

    def _by_node(self, row: Row, now: float) -> str | None:
        """Return what the owner's node says of it by its heartbeats. That is a word, no silence."""
        node = self._nodes.get(row.record.node)
        if node is not None and node.restarted_at is not None and row.since < node.restarted_at:
            return "node_restarted"
        if node is not None and self._is_absent(row, now):
            former = node.started_ms > row.record.claimed_ms > 0
            return "node_restarted" if former else "pod_absent"
        return None

    def _silence(self, row: Row, worker: Worker | None, now: float) -> str | None:
        bounds = self._bounds
        last = max(worker.seen if worker else 0.0, row.since, self._started)
        if now - last > bounds.fence_s:
            return "heartbeats_missed"
        if worker is None:
            return None
        dropped = worker.dropped_at
        if (
            dropped is not None
            and now - dropped > bounds.disconnect_s
            and worker.seen <= dropped
            and not self._is_mass_drop(worker.server or "", now)
            and not self._is_word_due(row, dropped, now)
        ):
            return "disconnect"
        names_it = worker.named == (row.key, row.record.epoch)
        since = max(row.since, worker.named_at) if names_it else row.since
        # Only a worker that is heard, and names something else or nothing, has not named it; a silent one is silent.
        return "not_named" if worker.seen > since and now - since > bounds.suspect_s else None

    def _is_word_due(self, row: Row, dropped: float, now: float) -> bool:
        """Return whether its living node will say how a worker ended whose connection did: it knows, and it has the files.

        Under load that takes longer than the end of a connection. A node that died, too, says nothing more: its own
        connection has ended, or it is silent. Of a Kubernetes node the API tells, a second or two later: that is waited for
        only where the task has cost an owner before, since it may be poison.
        """
        record = row.record
        node = self._nodes.get(record.node)
        if node is None:
            again = bool(record.interruptions) and self._nodes.has(record.owner)
            return again and self._checkpointers.is_heard(record.node, now)
        lives = self._nodes.is_alive(node.name, now) and node.cut_at is None
        return lives and (record.owner in node.pods or node.seen <= dropped)

    def had_not_begun(self, record: Record, task: str) -> bool:
        """Return whether an owner that ended had done a task and not begun this one, by its last heartbeat.

        Then it did not die of it. Of an owner that has not completed anything since its claim nobody knows: it got the
        session for the task that it found, whose body may kill who reads it.
        """
        worker = self._workers.get(record.owner or "")
        kept = record.first_done and record.attempt == 1
        if worker is None or not kept or record.last_done_ms < record.claimed_ms:
            return False
        named = (key_of(record.tenant, record.session), record.epoch)
        return worker.named == named and worker.beat.task != task

    def _is_absent(self, row: Row, now: float) -> bool:
        """Return whether the living node of the owner does not have its pod."""
        node = self._nodes.get(row.record.node)
        return (
            node is not None
            and self._nodes.is_alive(node.name, now)
            and node.seen > row.since + self._bounds.absent_s
            and row.record.owner not in node.pods
        )

    def _is_mass_drop(self, server: str, now: float) -> bool:
        """Return whether most clients of one server dropped together: then the server left, not they."""
        drops = self._drops.get(server, ())
        together = {name for at, name in drops if now - at <= 2 * DROP_WINDOW_S}
        there = sum(1 for name in self._workers if self._server_of.get(name) == server)
        unknown = sum(1 for name in self._workers if name not in self._server_of)
        servers = len({*self._server_of.values(), server, *self._drops})
        return len(together) >= max(MASS_MIN, (there + unknown / max(servers, 3)) / 2)


def _unsaved(worker: Worker | None, row: Row) -> int | None:
    """Return what a worker said last of its unsaved files, if that was about this session."""
    if worker is None or worker.named != (row.key, row.record.epoch):
        return None
    return worker.beat.unsaved_bytes
