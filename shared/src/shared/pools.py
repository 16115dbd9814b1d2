"""What a pool is: the declaration that operators write, and the isolation classes that it may promise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shared import limits
from shared.errors import InvalidMessage
from shared.ids import parse_name

ISOLATION_CLASSES = ("process", "landlock", "namespace", "oci", "gvisor", "kata")
"""Weakest to strongest. A node refuses rather than falls below the class that a pool names."""

Isolation = Literal["auto", "process", "landlock", "namespace", "oci", "gvisor", "kata"]
Exclude = Annotated[str, Meta(min_length=1, max_length=limits.EXCLUDE_LENGTH_MAX)]
"""Files of a workspace that no snapshot holds: a pattern as shells have them (`*`, `?`, `[…]`). Without a slash it is matched
with each name, with one with the whole path; what lies below an excluded directory is excluded."""
Excludes = Annotated[tuple[Exclude, ...], Meta(max_length=limits.EXCLUDES_MAX)]
OnInterrupt = Literal["rerun", "resume", "fail"]
Durability = Literal["saved", "relaxed"]
Workspace = Literal["checkpoint", "pvc"]
AccessMode = Literal["ReadWriteMany", "ReadWriteOnce"]
ON_VOLUMES = ("oci", "gvisor", "kata")
"""Classes of pods that can mount a volume: Kubernetes'."""


class Volume(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a pool keeps workspaces that are too large to be saved and restored."""

    storage_class: Annotated[
        str, Meta(max_length=253, pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$")
    ] = ""
    """Of the claim; empty: the cluster's default. What it makes must be as the access mode says."""
    access_mode: AccessMode = "ReadWriteMany"
    """As in a claim. `ReadWriteMany`: one volume for the pool's sessions, that all nodes mount at once. `ReadWriteOnce`: one
    that is attached to one node, on which all pods of the pool are then."""
    size_gib: Annotated[int, Meta(ge=1, le=1 << 20)] = 10
    """What the claim asks for, GiB."""


class PodLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of one sandbox."""

    memory_mib: Annotated[int, Meta(ge=32, le=1 << 20)] = 512
    """Memory of all processes together, MiB."""
    pids: Annotated[int, Meta(ge=8, le=32768)] = 128
    """Processes and threads."""
    cpu: Annotated[float, Meta(gt=0, le=256)] = 1.0
    """Cores."""
    disk_mib: Annotated[int, Meta(ge=1, le=1 << 24)] = 1024
    """Files in the workspace together, MiB."""


Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
TimeOfDay = Annotated[str, Meta(pattern="^(?:[01][0-9]|2[0-3]):[0-5][0-9]$")]
PodCount = Annotated[int, Meta(ge=0, le=10000)]
Money = Annotated[float, Meta(gt=0, le=1e9)]


class Hours(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Hours of the week, UTC, in which other bounds of the stock hold."""

    days: tuple[Day, ...] = DAYS
    begin: TimeOfDay
    """`HH:MM`"""
    end: TimeOfDay
    """`HH:MM`, not included; before `begin`: of the next day."""
    stock_min: PodCount = 0
    """Pods kept warm at least."""
    stock_max: PodCount | None = None
    """Pods kept warm at most; None: as without these hours."""


class Promise(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a pool's stock is made from instead of a number: who may wait how often, or what idling and waiting cost."""

    cold_share: Annotated[float, Meta(ge=0.0005, le=0.5)] | None = None
    """Share of new interactive sessions, and of sessions that wake, that may wait for a pod to start. None: the one at
    which `idle_cost_per_hour` and `cold_cost` balance."""
    idle_cost_per_hour: Money | None = None
    """Money that one warm pod costs while it waits for an hour. Any currency, the one of `cold_cost`."""
    cold_cost: Money | None = None
    """Money that it is worth that one activation does not wait for a pod to start."""
    batch_cold_share: Annotated[float, Meta(ge=0.0005, le=1)] = 1.0
    """The same share of `batch`. From 0.9 on it gets no warm stock: pods are started for it as it comes."""
    fault_share: Annotated[float, Meta(ge=0, le=1)] = 0.0
    """Share of the sessions with a pod that can lose it at once and find a warm one each."""
    stock_min: PodCount = 0
    """Pods kept warm at least."""
    stock_max: PodCount | None = None
    """Pods kept warm at most; None: `pods_max` bounds them."""
    hours: Annotated[tuple[Hours, ...], Meta(max_length=64)] = ()
    """Other bounds for some hours; the first that fit hold."""


class PoolSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pods of one template, and how many of them wait warm."""

    name: str
    stock: Annotated[int, Meta(ge=0, le=5000)] = 4
    """Pods kept warm. 0: every pod is started on demand. With a promise: kept until demand was watched for a while."""
    promise: Promise | None = None
    """What the stock is made from; None: it is the number `stock`."""
    pods_max: Annotated[int, Meta(ge=1, le=10000)] = 64
    """Pods of this pool at once, warm and bound."""
    starting_max: Annotated[int, Meta(ge=1, le=1000)] = 64
    """Pods in start at once: a refill never starves the pods that work."""
    isolation: Isolation = "auto"
    """Class promised to sessions; `auto` is the strongest that the node has, named in every status."""
    limits: PodLimits = PodLimits()
    image: str = ""
    """On Kubernetes: the sandboxes' image, made from the one of the product; empty: that one. Embedded sandboxes see the
    machine's own programs and have no image."""
    on_interrupt: OnInterrupt | None = None
    """What happens to a task whose worker died, unless the task says otherwise. None: `rerun`; with `workspace = "pvc"`
    `fail`, since a task that runs again finds there what it did before."""
    checkpoint_every_s: Annotated[float, Meta(ge=1, le=24 * 3600)] = 30.0
    """Seconds between checkpoints in the middle of a task."""
    durability: Durability = "saved"
    """`saved`: a task's result waits until its files are saved. `relaxed`: it does not wait for a store that can't be used;
    what such a task did is lost with its pod."""
    exclude: Excludes = ()
    """What no snapshot holds: it is lost with the pod. Holds for pods that are made from then on."""
    workspace: Workspace = "checkpoint"
    """`checkpoint`: on the node's disk, and saved. `pvc`: on a Kubernetes volume, which the session's next pod mounts."""
    volume: Volume | None = None
    """With `pvc`: which; None: one that many nodes mount, of the cluster's default class."""
    idle_release_s: Annotated[float, Meta(gt=0, le=7 * 24 * 3600)] = 600.0
    """Seconds that an idle session keeps its pod before it is released."""
    batch_first_every: Annotated[int, Meta(ge=2, le=1000)] = 10
    """While both classes wait, at least one start in so many is of `batch`, so that it never starves."""

    @property
    def on_volume(self) -> bool:
        """Whether workspaces lie on a volume, and not in snapshots."""
        return self.workspace == "pvc"

    @property
    def on_one_node(self) -> bool:
        """Whether all pods of the pool must be on one node: only there its volume can be mounted."""
        return (
            self.on_volume
            and self.volume is not None
            and self.volume.access_mode == "ReadWriteOnce"
        )

    @property
    def interrupt_rule(self) -> OnInterrupt:
        """What happens to a task whose worker died, where the task says nothing."""
        return self.on_interrupt or ("fail" if self.on_volume else "rerun")


class _PoolFile(msgspec.Struct, forbid_unknown_fields=True):
    pool: list[PoolSpec]


def parse_pools(text: str) -> tuple[PoolSpec, ...]:
    """Read pool declarations from TOML: one `[[pool]]` table for each.

    Raises:
        InvalidMessage: not TOML, an unknown or out-of-range field (named), no pool, a doubled or bad name.
    """
    import tomllib  # noqa: PLC0415 - workers, which read no declaration, do not carry it

    try:
        pools = msgspec.convert(tomllib.loads(text), _PoolFile).pool
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as exc:
        raise InvalidMessage(f"pools: {exc}") from exc
    return check_pools(pools)


def check_pools(pools: Sequence[PoolSpec]) -> tuple[PoolSpec, ...]:
    """Check what types cannot: names, doubles, and a stock that fits under the pool's own cap.

    Raises:
        InvalidMessage: names the pool and the field.
    """
    if not pools:
        raise InvalidMessage("pools: at least one [[pool]] expected")
    names: set[str] = set()
    for pool in pools:
        parse_name(pool.name, "pool.name")
        if pool.name in names:
            raise InvalidMessage(f"pool.name: {pool.name!r} is declared twice")
        names.add(pool.name)
        for pattern in pool.exclude:
            if not pattern.strip("/") or pattern != pattern.strip() or "\0" in pattern:
                raise InvalidMessage(
                    f"pool {pool.name!r}: exclude: {pattern!r}: a name or path expected, without outer spaces"
                )
        if pool.promise is not None:
            _check_promise(pool.name, pool.promise)
        if pool.stock > pool.pods_max:
            raise InvalidMessage(
                f"pool {pool.name!r}: stock {pool.stock} is above pods_max {pool.pods_max}"
            )
        if wrong := _wrong_workspace(pool):
            raise InvalidMessage(f"pool {pool.name!r}: {wrong}")
    return tuple(pools)


def _check_promise(pool: str, promise: Promise) -> None:
    prices = (promise.idle_cost_per_hour, promise.cold_cost)
    if promise.cold_share is None and None in prices:
        raise InvalidMessage(
            f"pool {pool!r}: promise: cold_share expected, or both idle_cost_per_hour and cold_cost"
        )
    own = (promise.stock_min, promise.stock_max)
    for low, high in (own, *((hours.stock_min, hours.stock_max) for hours in promise.hours)):
        if high is not None and low > high:
            raise InvalidMessage(
                f"pool {pool!r}: promise: stock_min {low} is above stock_max {high}"
            )


def _wrong_workspace(pool: PoolSpec) -> str:
    """Return what does not go together with where a pool keeps workspaces; empty: all does."""
    if not pool.on_volume:
        return 'volume: only with workspace = "pvc"' if pool.volume else ""
    if pool.isolation not in ON_VOLUMES:
        return f'isolation: {pool.isolation} pods mount no volume: {", ".join(ON_VOLUMES)} expected with workspace = "pvc"'
    if pool.exclude:
        return 'exclude: nothing is left out of a volume: none expected with workspace = "pvc"'
    if pool.durability != "saved":
        return (
            f'durability: {pool.durability} means snapshots: saved expected with workspace = "pvc"'
        )
    return ""
