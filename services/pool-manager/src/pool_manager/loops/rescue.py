"""Has the workspaces of dead pods saved by their nodes' checkpointers, before anybody else may claim their sessions.

The record says `rescuing` meanwhile, and whose pod that was: whichever pool-manager is up can see to it. It is the checkpointer
that writes what it saved into the record, and so ends that state; where it does not in time, the recoverer gives it up like any
owner, and the session goes on from what was saved before.
"""

from __future__ import annotations

import asyncio
import time

import msgspec

from pool_manager.core.rescues import (
    are_files_left,
    ask_of,
    look_of,
    patience_ms,
    worth,
)
from pool_manager.core.trail import TaskInHand
from pool_manager.core.world import World
from pool_manager.loops.hands import Hands
from pool_manager.ports import Truth
from pool_manager.ports.checkpointers import Checkpointers
from pool_manager.ports.pods import Pods
from shared import logs
from shared.errors import ServiceError
from shared.record import Death, Record, Rescue
from shared.traces import Context
from shared.workspace import CheckpointAnswer

log = logs.get(__name__)

AGAIN_S = 0.2
LOOK_S = 0.5
LOOKS = 2
"""So often it is asked, under one id, whether a workspace is whole: longer than this its session does not wait for that."""
DELETE_GRACE_S = 0.0


def rescuer(node: str) -> str:
    """Return the name under which a node's checkpointer owns what it rescues."""
    return f"ckpt-{node}"


class Rescuer:
    """Decides whether to rescue, and sees each rescue through."""

    def __init__(
        self, world: World, truth: Truth, checkpointers: Checkpointers, pods: Pods
    ) -> None:
        """Work on what `world` knows."""
        self.hands = Hands("rescue", count=32, pending_max=4096)
        self._world = world
        self._truth = truth
        self._checkpointers = checkpointers
        self._pods = pods

    async def plan(self, record: Record, death: Death, hit: TaskInHand | None) -> Rescue | None:
        """Return who saves a dead owner's workspace; None: nobody can, or nobody would use it.

        Args:
            record: as its owner had it.
            death: why it is given up.
            hit: the task in hand; None: there was none, or it is not known.
        """
        now = time.monotonic()
        if record.state != "running" or record.node is None or self._is_on_volume(record):
            return None
        told = self._world.detector.told_of(record.owner)
        speaks = self._world.nodes.get(record.node) is not None
        if not are_files_left(told, death.cause, node_speaks=speaks):
            return None
        if not self._world.is_node_alive(record.node, now):
            return None
        if problem := self._world.checkpointers.problem(record.node, now):
            log.warning("rescue.impossible", session_id=record.session, why=problem)
            return None
        slots = self._world.pools.get(record.pool)
        if slots is None or (hit is None and death.in_task):
            return None
        try:
            body = None if hit is None else await self._body(record, hit)
        except ServiceError as exc:
            log.warning("rescue.not_decided", session_id=record.session, error=str(exc))
            return None
        use = worth(record, body, slots.spec.interrupt_rule)
        if use == "nothing" or (use == "saving_if_whole" and not await self._is_whole(record)):
            return None
        wait_ms = patience_ms(record, slots.spec.limits.disk_mib << 20)
        until_ms = int(time.time() * 1000) + wait_ms
        return Rescue(owner=rescuer(record.node), node=record.node, until_ms=until_ms)

    def _is_on_volume(self, record: Record) -> bool:
        """Return whether the files are where the next pod finds them as they are."""
        slots = self._world.pools.get(record.pool)
        return slots is not None and slots.spec.on_volume

    async def _is_whole(self, record: Record) -> bool:
        """Ask whether a dead pod's workspace holds nothing in part; without an answer it is taken to hold something."""
        assert record.node is not None
        assert record.owner is not None
        ask = look_of(record, record.owner, LOOK_S)
        for _ in range(LOOKS):
            try:
                answer = await self._checkpointers.look(record.node, ask)
            except ServiceError as exc:
                log.warning("rescue.not_looked", session_id=record.session, error=str(exc))
            else:
                return answer.state == "done"
        return False

    async def see_through(self, rescuing: Record, trace: Context | None = None) -> str:
        """Ask until the rescue has ended or is late; return why it failed, empty: it did not. Then delete the pod.

        Args:
            rescuing: the record, as it was written when the owner was given up.
            trace: what the rescue's span belongs to; None: it has none.
        """
        assert rescuing.node is not None
        pod = rescuing.rescue_pod
        why = "late"
        while (now_ms := int(time.time() * 1000)) < rescuing.rescue_until_ms:
            if self._world.checkpointers.is_silent(rescuing.node, time.monotonic()):
                why = "checkpointer_lost"
                break
            ask = ask_of(rescuing, now_ms, trace)
            try:
                answer = await self._checkpointers.rescue(rescuing.node, ask)
            except ServiceError as exc:
                log.info("rescue.unanswered", session_id=rescuing.session, error=str(exc))
                await asyncio.sleep(AGAIN_S)
                continue
            if answer.state in ("done", "failed"):
                why = _why(answer)
                break
        log.info("rescue.ended", session_id=rescuing.session, pod=pod, why=why)
        await self._delete(rescuing.node, pod)
        return why

    async def _delete(self, node: str, pod: str) -> None:
        """Give up what is left of the pod; where that fails, its node does so by itself after a while."""
        try:
            await self._pods.delete(node, pod, DELETE_GRACE_S)
        except ServiceError as exc:
            log.info("pod.not_deleted", pod=pod, error=str(exc))

    async def _body(self, record: Record, hit: TaskInHand) -> bytes:
        """Return the body of the task in hand; empty where it is not there any more."""
        if hit.is_first:
            return await self._truth.payload(record) or b""
        entry = await self._truth.entry(record.tenant, record.session, hit.task)
        return entry.body if entry is not None else b""


def _why(answer: CheckpointAnswer) -> str:
    if answer.state == "done":
        return ""
    log.warning(
        "rescue.failed", job=answer.job, error=answer.error and msgspec.to_builtins(answer.error)
    )
    return answer.error.code if answer.error is not None else "failed"
