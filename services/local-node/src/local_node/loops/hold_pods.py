"""The pods of a node: take, end, and tell when one is gone."""

from __future__ import annotations

import asyncio
import dataclasses
import re
import time
from collections.abc import Mapping

from local_node.core.isolation import choose
from local_node.loops.run_pod import Pod, run_pod
from local_node.ports import Starter, Voice
from shared import logs
from shared.errors import AlreadyDone, Draining, InvalidMessage, LimitExceeded
from shared.messages import NodeBeat, PodSpec

log = logs.get(__name__)

_POD_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


@dataclasses.dataclass(frozen=True)
class HoldSettings:
    """Bounds of one node."""

    node: str
    pods_max: int
    starting_max: int
    linger_s: float
    dead_kept_s: float


class Pods:
    """Every pod of a node, from its acceptance until its files are given up."""

    def __init__(
        self, settings: HoldSettings, starter: Starter, voice: Voice, tasks: asyncio.TaskGroup
    ) -> None:
        """Run pods as tasks of `tasks`."""
        self._settings = settings
        self._starter = starter
        self._voice = voice
        self._tasks = tasks
        self._starting = asyncio.Semaphore(settings.starting_max)
        self._pods: dict[str, Pod] = {}
        self._dead: dict[str, float] = {}
        """Pod -> monotonic time of its end; its files are still there."""
        self._draining = False
        self._empty = asyncio.Event()
        self._empty.set()

    def create(self, spec: PodSpec, available: Mapping[str, str]) -> None:
        """Take a pod; its start goes on aside. Taking one that is there already does nothing.

        Args:
            spec: what to start.
            available: the node's isolation classes, as in `core.isolation`.

        Raises:
            ServiceError: it will not be started; says why.
        """
        name = parse_pod_name(spec.pod)
        if name in self._pods:
            return
        if name in self._dead:
            raise AlreadyDone(f"pod {name}: has been here and ended")
        if self._draining:
            raise Draining(f"node {self._settings.node} is leaving")
        if len(self._pods) >= self._settings.pods_max:
            raise LimitExceeded(
                f"node {self._settings.node}: {self._settings.pods_max} pods are here, pods_max"
            )
        pod = Pod(spec, choose(spec.isolation, available))
        self._pods[name] = pod
        self._empty.clear()
        self._tasks.create_task(self._run(pod), name=f"pod {name}")

    def delete(self, name: str, grace_s: float) -> None:
        """End a pod and give its files up. One that is not there has been deleted already."""
        if self._dead.pop(name, None) is not None:
            self._starter.discard(name)
        pod = self._pods.get(name)
        if pod is not None:
            pod.deleted = True
            pod.end(grace_s)

    async def drain(self, grace_s: float, deadline_s: float) -> bool:
        """Take nothing new and end every pod; True once none is left."""
        self._draining = True
        for pod in self._pods.values():
            pod.end(grace_s)
        try:
            async with asyncio.timeout(deadline_s):
                await self._empty.wait()
        except TimeoutError:
            log.exception("node.drain_late", pods=sorted(self._pods))
        return self._empty.is_set()

    def expire(self) -> None:
        """Give up the files of pods that ended long ago and that nobody deleted."""
        limit = time.monotonic() - self._settings.dead_kept_s
        for name in [name for name, ended in self._dead.items() if ended < limit]:
            self.delete(name, 0)

    def beat(self, started_ms: int, available: Mapping[str, str]) -> NodeBeat:
        """Return the node's heartbeat."""
        return NodeBeat(
            node=self._settings.node,
            started_ms=started_ms,
            pods=tuple(self._pods),
            capacity=self._settings.pods_max,
            isolation=dict(available),
            draining=self._draining,
        )

    async def _run(self, pod: Pod) -> None:
        name = pod.spec.pod
        gone = await run_pod(pod, self._starter, self._starting, self._settings.linger_s)
        del self._pods[name]
        if pod.deleted:
            self._starter.discard(name)
        else:
            self._dead[name] = time.monotonic()
        if not self._pods:
            self._empty.set()
        log.info(
            "pod.gone", pod=name, cause=gone.cause, exit_code=gone.exit_code, signal=gone.signal, detail=gone.detail
        )  # fmt: skip
        await self._voice.gone(pod.spec.pool, gone)


def parse_pod_name(name: str) -> str:
    """Return a pod's name, safe as a folder's name and as a token of a subject.

    Raises:
        InvalidMessage: not 1 to 63 characters of a-z 0-9 -, or a dash at an end.
    """
    if not _POD_NAME.fullmatch(name):
        raise InvalidMessage(
            f"pod: 1 to 63 characters of a-z 0-9 - expected (no dash at an end), got {name[:80]!r}"
        )
    return name
