"""Settings of one worker."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from shared.pools import Durability, Excludes, OnInterrupt, Workspace
from shared.traces.context import Sampling


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a worker must know before it connects. Filled from the pod's spec (`WORKER_…`)."""

    idle_release_s: Annotated[float, Meta(gt=0)] = 600.0
    """Seconds that an idle session keeps its pod."""
    on_interrupt: OnInterrupt = "rerun"
    """The pool's rule for tasks whose worker died."""
    checkpoint_every_s: Annotated[float, Meta(gt=0)] = 30.0
    """Seconds between checkpoints in the middle of a task."""
    durability: Durability = "saved"
    """Whether a result waits for a store that can't be used."""
    workspace: Workspace = "checkpoint"
    """Where files are between two pods: in snapshots, or on a volume that the pool's pods share."""
    exclude: Excludes = ()
    """Patterns of files that no snapshot holds."""
    fence_s: Annotated[float, Meta(gt=1)] = 4.0
    """T_fence: without contact for this long less `fence_margin_s`, user code is frozen."""
    fence_margin_s: Annotated[float, Meta(gt=0)] = 1.0
    give_up_s: Annotated[float, Meta(gt=0)] = 300.0
    """Frozen or unable to commit for so long, the worker ends its pod."""
    beat_bound_s: Annotated[float, Meta(gt=0)] = 0.25
    beat_warm_s: Annotated[float, Meta(gt=0)] = 2.0
    full_tenants: tuple[str, ...] = ()
    """Tenants that get no new session, as known when the pod was made; pool-managers say it again."""
    log_level: str = "info"
    probes: str | None = None
    """`host:port` of `/livez`, `/readyz` and `/metrics`; None: there are none, and nothing is loaded for them."""
    trace_ratio: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Part of the traces that begin here of which spans are noted; None: traces are off, and nothing is spent on them."""
    trace_heeds_parent: bool = True
    """Of others' traces those are noted whose publisher wants it."""
    failpoints: str | None = None
    """For tests: folder of placed faults (`shared.failpoints`)."""


def sampling_of(settings: WorkerSettings) -> Sampling | None:
    """Return which traces are noted; None: none, and nothing is spent on them."""
    if settings.trace_ratio is None:
        return None
    return Sampling(settings.trace_ratio, settings.trace_heeds_parent)
