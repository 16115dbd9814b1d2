"""Gives new pods on Kubernetes their credentials: to the pod that a slot names, for one key, for a proof of which pod it is."""

from __future__ import annotations

from functools import partial

import msgspec

from pool_manager.core.kube_cluster import Cluster
from pool_manager.core.kube_pods import Pod
from pool_manager.core.world import World
from pool_manager.loops.hands import Hands
from pool_manager.ports import Heard, Mint, Replies, SlotStore
from pool_manager.ports.kube import Proofs
from shared import logs, messages
from shared.enrolment import REPLIES, Enroll, Enrolled
from shared.errors import Conflict, Forbidden, OutcomeUnknown, ServiceError, Unavailable
from shared.identity import is_user_key
from shared.kube_names import node_token
from shared.messages import PodSpec, Slot

log = logs.get(__name__)


class Enroller:
    """Serves `enroll.<pool>.<pod>`. All pods may publish there, as any of them: nothing is believed that is not proven."""

    def __init__(
        self, world: World, cluster: Cluster, ports: tuple[SlotStore, Proofs, Mint, Replies]
    ) -> None:
        """Enrol pods that `cluster` has and `world` wants."""
        self.hands = Hands("enrol", count=16, pending_max=4096)
        self._world = world
        self._cluster = cluster
        self._slots, self._proofs, self._mint, self._replies = ports

    def heard(self, message: Heard) -> None:
        """Take a request; one that comes again while it is in hand is answered when it comes once more."""
        if message.reply.startswith(REPLIES):  # anywhere else an answer could do harm
            self.hands.offer(message.subject, partial(self._serve, message))

    async def _serve(self, message: Heard) -> None:
        _, pool, pod = message.subject.split(".")
        try:
            ask = messages.decode(message.data, Enroll)
            answer = Enrolled(spec=await self._enrol(pool, pod, ask))
        except (Unavailable, OutcomeUnknown) as exc:
            log.debug("enrolment.put_off", pod=pod, pool=pool, code=exc.code, error=str(exc))
            answer = Enrolled(error=exc.info())
        except ServiceError as exc:
            log.warning("enrolment.refused", pod=pod, pool=pool, code=exc.code, error=str(exc))
            answer = Enrolled(error=exc.info())
        await self._replies.answer(message.reply, messages.encode(answer))

    async def _enrol(self, pool: str, pod: str, ask: Enroll) -> PodSpec:
        proof = await self._proofs.prove(ask.token)
        if (proof.pod, proof.uid) != (pod, ask.pod_uid):
            raise Forbidden(f"the token is that of pod {proof.pod}")
        if proof.node not in ("", ask.node):
            raise Forbidden(f"the token is that of a pod on {proof.node}")
        if not is_user_key(ask.public_key):
            raise Forbidden("no public key of a NATS user")
        slots = self._world.pools.get(pool)
        if slots is None:
            raise Forbidden(f"there is no pool {pool}")
        slot, seq = await self._slot(pool, pod)
        seen = self._seen(pool, pod, proof.uid)
        slot = await self._bind(slot, seq, ask.public_key)
        lanes = slots.turns.lanes() if slots.is_starved and not slots.on_demand else seen.lanes
        placed = msgspec.structs.replace(slot, node=node_token(ask.node))
        spec = self._mint.pod_spec(placed, seen.isolation, lanes, ask.public_key)
        log.info("pod.enrolled", pod=pod, node=ask.node)
        return spec

    def _seen(self, pool: str, pod: str, uid: str) -> Pod:
        """Return the pod that asks, if it is there and not at its end."""
        seen = self._cluster.pods.get(pod)
        if seen is None:
            raise Unavailable(f"pod {pod} has not been seen here yet")
        if seen.uid != uid or seen.pool != pool:
            raise Forbidden(f"pod {pod} of pool {pool} is another one")
        if seen.over is not None or seen.is_ending:
            raise Forbidden(f"pod {pod} is over")
        return seen

    async def _slot(self, pool: str, pod: str) -> tuple[Slot, int]:
        """Return the slot that names the pod, from the leader."""
        name = pod.removeprefix(f"{pool}-").rpartition("-")[0]
        found = await self._slots.read(pool, name)
        if found is None or found[0].pod != pod:
            raise Forbidden(f"no slot of pool {pool} names pod {pod}")
        return found

    async def _bind(self, slot: Slot, seq: int, key: str) -> Slot:
        """Note the pod's key in its slot, by compare-and-set: whoever else shows the same token later gets nothing."""
        if slot.key == key:
            return slot
        if slot.key:
            raise Forbidden(f"pod {slot.pod} has enrolled under another key")
        bound = msgspec.structs.replace(slot, key=key)
        try:
            await self._slots.reserve(bound, seq)
        except Conflict as exc:
            raise Unavailable(f"the slot of pod {slot.pod} has just changed") from exc
        return bound
