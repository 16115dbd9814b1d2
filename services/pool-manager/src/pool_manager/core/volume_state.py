"""What is wrong with a pool's volume, and what is to be done about it: by what the API server says. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from pool_manager.core.pod_halves import claim_name
from pool_manager.core.pod_template import PodTemplate
from pool_manager.core.volume_form import FORM, keepers_manifest, volume_of
from shared.kube.views import Meta
from shared.pools import PoolSpec

LOOK_S = 10.0
"""Between two looks where nothing misses, and at most."""
SOON_S = 1.0
"""After something was found to miss, or to have changed."""


class _ClaimSpec(msgspec.Struct, rename="camel"):
    storage_class_name: str = ""
    access_modes: tuple[str, ...] = ()


class _Phase(msgspec.Struct, rename="camel"):
    phase: str = ""


class ClaimView(msgspec.Struct, rename="camel"):
    """A claim."""

    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: _ClaimSpec = msgspec.field(default_factory=_ClaimSpec)
    status: _Phase = msgspec.field(default_factory=_Phase)


class _Replicas(msgspec.Struct, rename="camel"):
    available_replicas: int = 0


class DeploymentView(msgspec.Struct, rename="camel"):
    """A Deployment."""

    metadata: Meta = msgspec.field(default_factory=Meta)
    status: _Replicas = msgspec.field(default_factory=_Replicas)


Act = Literal["create claim", "create keepers", "update keepers"]


class Verdict(msgspec.Struct, frozen=True):
    """Of one pool."""

    acts: tuple[Act, ...] = ()
    problem: str = ""
    """Why no pod of it can start now; empty: nothing is wrong."""


def judge(
    template: PodTemplate,
    pool: PoolSpec,
    claim: ClaimView | None,
    keepers: DeploymentView | None,
) -> Verdict:
    """Return what is to be done for a pool on a volume, and what is wrong with it.

    Args:
        template: what all pods have in common.
        pool: one with `workspace = "pvc"`.
        claim: its claim; None: there is none.
        keepers: its Deployment; None: there is none.
    """
    if not template.services_image:
        return Verdict(
            problem='its volume has no keeper: worker-pods names no services_image, which pools with workspace = "pvc" need'
        )
    if claim is None:
        return Verdict(("create claim",), "its volume is being claimed")
    if wrong := _differs(pool, claim):
        return Verdict(problem=wrong)
    acts: tuple[Act, ...] = ()
    if keepers is None:
        acts = ("create keepers",)
    elif keepers.metadata.annotations.get(FORM) != _form(template, pool):
        acts = ("update keepers",)
    if claim.status.phase == "Lost":
        return Verdict(acts, f"claim {claim.metadata.name}: the volume is lost")
    if keepers is None or not keepers.status.available_replicas:
        where = claim.spec.storage_class_name or "the cluster's default class"
        waits = f"claim {claim.metadata.name} ({where}) is {claim.status.phase or 'Pending'}"
        bound = claim.status.phase == "Bound"
        return Verdict(acts, "no keeper of its volume is ready" + ("" if bound else f": {waits}"))
    return Verdict(acts)


def _form(template: PodTemplate, pool: PoolSpec) -> str:
    annotations: dict[str, str] = keepers_manifest(template, pool)["metadata"]["annotations"]
    return annotations[FORM]


def _differs(pool: PoolSpec, claim: ClaimView) -> str:
    """Return how a claim is another than the pool's; its size may have grown by somebody's hand."""
    volume, spec = volume_of(pool), claim.spec
    name = claim_name(pool.name)
    if volume.storage_class and spec.storage_class_name != volume.storage_class:
        return (
            f"claim {name} is of class {spec.storage_class_name or 'none'}, not {volume.storage_class} (volume.storage_class): "
            "what holds sessions is not replaced; declare another pool, or delete the claim with all that it holds"
        )
    if volume.access_mode not in spec.access_modes:
        return f"claim {name} has {', '.join(spec.access_modes) or 'no mode'}, not {volume.access_mode} (volume.access_mode)"
    return ""


def next_look_s(last_s: float, before: Mapping[str, str], now: Mapping[str, str]) -> float:
    """Return after how many seconds to look again: soon while what misses changes, then ever later.

    Args:
        last_s: the wait before this look.
        before: what was wrong at the look before, by pool.
        now: what is wrong now.
    """
    if not now:
        return LOOK_S
    return SOON_S if now != before else min(2 * last_s, LOOK_S)
