"""On a system that others use too, a run sees its own pool and nothing else."""

from __future__ import annotations

from pathlib import Path

from agent_sandbox.kubernetes.names import namespaces
from agent_sandbox.kubernetes.site import Site
from chaos.adapters.history_file import HistoryFile, read_history
from chaos.adapters.kubernetes import KubeCluster
from chaos.adapters.observer import Observer
from pool_manager.core.pod_form import POOL as POOL_OF_PODS
from shared import messages
from shared.kubectl import Object
from shared.messages import TaskResult
from shared.record import Record
from shared.testing.relay import Relay

OURS, THEIRS = "chaos-1", "default"


def record(session: str, pool: str, state: str, epoch: int) -> bytes:
    """Return a record as a state stream stores it."""
    stored = Record(
        session=session,
        tenant="t",
        pool=pool,
        state=state,  # type: ignore[arg-type]  # a state
        lane="interactive",
        client_lane="interactive",
        keep=True,
        accepted_ms=1,
        epoch=epoch,
        node="n1" if state == "running" else None,
    )
    return messages.encode(stored)


def test_sessions_of_other_pools_are_not_in_the_history(tmp_path: Path) -> None:
    """Else a stranger's owner that is given up is a false fence of a quiet run, and one on a node that dies is hit."""
    path = tmp_path / "history.jsonl"
    with HistoryFile(path) as notes:
        observer = Observer(notes, notes.begin(), OURS)
        for number, (session, pool) in enumerate((("a", OURS), ("b", THEIRS))):
            for place, (state, epoch) in enumerate((("running", 1), ("queued", 2))):
                body = record(session, pool, state, epoch)
                observer.on_stored((0, 10 * number + place), f"rec.t.{session}", body)
            result = TaskResult(
                task=f"task-{session}", session=session, tenant="t", status="ok", pool=pool
            )
            at = (0, 10 * number + 5)
            observer.on_stored(at, f"done.t.{session}.{result.task}", messages.encode(result))

    history = read_history(path)

    assert [version.session for version in history.versions] == ["a", "a"]
    assert [result.session for result in history.results] == ["a"]
    assert (set(observer.versions), observer.stored) == ({"a"}, {"task-a"})


class Kubectl:
    """A cluster of two ready nodes; each has a worker, of another pool."""

    def get(self, kind: str, name: str, **_: object) -> Object:
        """The gateways' Service."""
        return {"spec": {"clusterIP": "127.0.0.1", "ports": [{"port": 9}]}}

    def list(
        self, kind: str, *, namespace: str | None = None, labels: str | None = None
    ) -> list[Object]:
        """Nodes, or pods by their label."""
        if kind == "nodes":
            ready = {"conditions": [{"type": "Ready", "status": "True"}]}
            return [{"metadata": {"name": name}, "status": ready} for name in ("n1", "n2")]
        pods = {f"{POOL_OF_PODS}={OURS}": "n1", f"{POOL_OF_PODS}={THEIRS}": "n2"}
        return [
            {"metadata": {"name": f"pod-{node}"}, "spec": {"nodeName": node}}
            for label, node in pods.items()
            if namespace == namespaces().pods and labels in (None, label)
        ]


async def test_workers_of_other_pools_make_no_node_a_victim(tmp_path: Path) -> None:
    """A node that has none of the run's own would die for nothing."""
    relay = Relay()
    site = Site(Kubectl(), namespaces(), None, tmp_path, print)  # type: ignore[arg-type]  # what it uses of them
    cluster = KubeCluster(site, None, relay, lambda: 0.0)  # type: ignore[arg-type]  # not used here
    cluster.pool = OURS

    nodes = await cluster.nodes()
    relay.close()

    assert {node.name: node.workers for node in nodes} == {"n1": 1, "n2": 0}
