"""Which pods have a former form: made by a template, or a declaration of their pool, that holds no more. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from pool_manager.core.kube_pods import Pod
from pool_manager.core.peers import Peers
from pool_manager.core.pod_form import pod_manifest
from pool_manager.core.pod_order import PodOrder
from pool_manager.core.pod_template import PodClass, PodTemplate
from pool_manager.core.slots import Slots
from shared.pools import PoolSpec

FORM = "agent-sandbox.dev/form"
"""Annotation: a digest of all that pods of one pool and class have in common."""
SHARE = 10
"""Of a stock of so many pods one is replaced at a time."""


def form_of(template: PodTemplate, pool: PoolSpec, isolation: PodClass) -> str:
    """Return the digest of the form that a pod would have now."""
    manifest = pod_manifest(template, pool, PodOrder("", "", isolation))
    return hashlib.blake2b(msgspec.json.encode(manifest), digest_size=8).hexdigest()


def outdated(
    slots: Slots, pods: Iterable[Pod], forms: dict[str, str], peers: Peers, now: float
) -> list[Pod]:
    """Return warm pods of a former form that are to be replaced now: few at a time, while all other slots are filled.

    A pod that a living pool-manager made is left alone: while a new form is rolled out, the others still make the old one.

    Args:
        slots: the pool's.
        pods: of the cluster.
        forms: isolation class -> digest of today's form.
        peers: the living pool-managers.
        now: monotonic clock.
    """
    if slots.due or slots.count["starting"] or not peers.is_settled(now):
        return []
    mine = sorted((pod for pod in pods if slots.has_pod(pod.name)), key=lambda pod: pod.name)
    room = 1 + slots.target // SHARE - sum(pod.is_ending for pod in mine)
    makers = {peers.me, *peers.alive(now)}
    return [pod for pod in mine if _is_old(slots, pod, forms, makers)][: max(room, 0)]


def _is_old(slots: Slots, pod: Pod, forms: dict[str, str], makers: set[str]) -> bool:
    row = slots.row_of(pod.name)
    return (
        row is not None
        and row.phase == "warm"
        and row.slot.manager not in makers
        and not pod.is_ending
        and pod.over is None
        and pod.form != forms.get(pod.isolation, pod.form)
    )
