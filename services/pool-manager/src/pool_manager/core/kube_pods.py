"""What a pod's object in the Kubernetes API means to us. Pure."""

from __future__ import annotations

import msgspec

from pool_manager.core.turns import Lane
from shared.classes import CLASSES
from shared.ids import SHARDS
from shared.kube.views import PodView, Terminated
from shared.messages import PodGone

PLACE = "kubernetes"
"""The one node that the plan sees."""
SIDECAR = "sidecar"
SANDBOX = "sandbox"
BY_OTHERS = frozenset(
    {"Evicted", "Preempting", "NodeLost", "NodeShutdown", "Terminated", "Shutdown"}
)
"""Why a pod failed that its task did not kill."""
ON_ITS_WAY = frozenset({"", "ContainerCreating", "PodInitializing", "Pending"})
"""Reasons to wait that are no reason to worry."""
OOM_KILLED = "OOMKilled"
SIGNALLED = 128
"""Exit codes above it say which signal ended a process."""
SAID_MAX = 300


class Pod(msgspec.Struct):
    """One worker pod as it was seen last."""

    name: str
    uid: str
    pool: str
    isolation: str
    lanes: tuple[Lane, ...]
    """Lanes that it was started for."""
    form: str
    """Digest of what it was made by."""
    node: str
    """Empty: Kubernetes has found none yet."""
    is_ending: bool
    """It was told to end."""
    is_started: bool
    """Its sidecar runs."""
    stuck: str
    """Why it does not start; empty: it does, or nothing is wrong so far."""
    over: PodGone | None
    """How it ended, or was found to be of no use any more; None: it lives."""
    seen_at: float = 0.0
    """When it was first seen, monotonic clock."""
    started_at: float | None = None
    """When it was first seen started."""


class Labels(msgspec.Struct, frozen=True):
    """Names of what our pods' objects say of themselves."""

    pool: str
    isolation: str
    lanes: str
    form: str


def read_pod(view: PodView, labels: Labels) -> Pod:
    """Return what matters of a pod."""
    meta = view.metadata
    sidecar = view.container(SIDECAR)
    return Pod(
        name=meta.name,
        uid=meta.uid,
        pool=meta.labels.get(labels.pool, ""),
        isolation=meta.labels.get(labels.isolation, ""),
        lanes=read_lanes(meta.annotations.get(labels.lanes, "")),
        form=meta.annotations.get(labels.form, ""),
        node=view.spec.node_name,
        is_ending=meta.deletion_timestamp is not None,
        is_started=sidecar is not None and sidecar.state.running is not None,
        stuck=_stuck(view),
        over=_over(view),
    )


def write_lanes(lanes: tuple[Lane, ...]) -> str:
    """Return lanes as an annotation holds them."""
    return " ".join(f"{klass}.{shard}" for klass, shard in lanes)


def read_lanes(text: str) -> tuple[Lane, ...]:
    """Return the lanes of an annotation; what is none is left out."""
    found = []
    for word in text.split():
        klass, _, shard = word.partition(".")
        if klass in CLASSES and shard.isdecimal() and int(shard) < SHARDS:
            found.append((klass, int(shard)))
    return tuple(found)


def _over(view: PodView) -> PodGone | None:
    sidecar = view.container(SIDECAR)
    if view.status.phase in ("Succeeded", "Failed"):
        ended = (
            None if sidecar is None else sidecar.state.terminated or sidecar.last_state.terminated
        )
        return _gone(view, ended)
    if sidecar is not None and sidecar.restart_count > 0:
        # Its container was used: a sidecar that is started again serves nobody.
        return _gone(view, sidecar.last_state.terminated or sidecar.state.terminated)
    return None


def _gone(view: PodView, ended: Terminated | None) -> PodGone:
    status = view.status
    gone = PodGone(
        pod=view.metadata.name,
        node=view.spec.node_name or PLACE,
        cause="exited",
        stopped=_is_stopped(view),
    )
    if view.metadata.deletion_timestamp is not None:
        return msgspec.structs.replace(gone, cause="deleted")
    said = f"{status.reason}: {status.message}".strip(": ")[:SAID_MAX]
    if status.reason in BY_OTHERS:
        return msgspec.structs.replace(gone, cause="evicted", detail=said)
    if ended is None:
        return msgspec.structs.replace(gone, cause="start_failed", detail=said or _stuck(view))
    code = ended.exit_code
    signal = ended.signal or (code - SIGNALLED if code > SIGNALLED else None)
    detail = f"exit code {code}: {ended.reason}: {ended.message}".rstrip(": ") if code else ""
    cause = "killed" if signal else "exited"
    return msgspec.structs.replace(
        gone,
        cause="oom" if _is_out_of_memory(view) else cause,
        exit_code=None if signal else code,
        signal=signal,
        detail=(said or detail)[:SAID_MAX],
    )


def _is_out_of_memory(view: PodView) -> bool:
    """Return whether what the sandbox took has ended the whole pod, as in gVisor, where one kernel holds both containers."""
    return all(
        (one := view.container(name)) is not None
        and OOM_KILLED
        in (end.reason for end in (one.state.terminated, one.last_state.terminated) if end)
        for name in (SIDECAR, SANDBOX)
    )


def _is_stopped(view: PodView) -> bool:
    """Return whether its kubelet says of both containers that they have ended: nobody else writes their states."""
    both = (view.container(SIDECAR), view.container(SANDBOX))
    return all(one is not None and one.state.terminated is not None for one in both)


def removed(pod: Pod) -> PodGone:
    """Return how a pod ended whose object is gone: as was seen before, else somebody deleted it."""
    return pod.over or PodGone(pod=pod.name, node=pod.node or PLACE, cause="deleted")


def _stuck(view: PodView) -> str:
    """Return why a pod does not start, as the scheduler or the kubelet say it."""
    for condition in view.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return f"{condition.reason}: {condition.message}"[:SAID_MAX]
    for name in (SIDECAR, SANDBOX):
        one = view.container(name)
        if one is None or one.state.waiting is None:
            continue
        waiting = one.state.waiting
        if waiting.reason not in ON_ITS_WAY:
            return f"{name}: {waiting.reason}: {waiting.message}".rstrip(": ")[:SAID_MAX]
    return ""
