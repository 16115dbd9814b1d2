"""The pools of an embedded cluster: what the operator declared, and what that means on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agent_sandbox.embedded.folder import ClusterFile, Folder, replace_file, translating
from shared.errors import NotFound
from shared.pools import ISOLATION_CLASSES, PoolSpec, check_pools, parse_pools

DEFAULT_POOLS = """\
# The pools of this cluster, one [[pool]] table each. Edit it and run `agent-sandbox up` again to apply it.
# Fields and bounds: docs/pools.md. Those that are absent have their default.

[[pool]]
name = "default"
stock = 8            # workers that wait warm
isolation = "auto"   # the strongest class that the nodes have; or: process, landlock, namespace

[[pool]]
name = "cold"
stock = 0            # nobody waits: each worker is started on demand
isolation = "auto"
"""
NAMED_ONLY = ("process",)
"""Classes that `auto` never picks: a pool must name them."""


def read_declared(folder: Folder) -> tuple[PoolSpec, ...]:
    """Return the pools that `pools.toml` declares; writes the default file where there is none.

    Raises:
        InvalidMessage: the file is wrong (names what).
        Forbidden: it can't be read.
    """
    with translating(folder.pools_file):
        if not folder.pools_file.exists():
            replace_file(folder.pools_file, DEFAULT_POOLS.encode(), mode=0o644)
        return parse_pools(folder.pools_file.read_text())


def effective(pools: tuple[PoolSpec, ...], cluster: ClusterFile) -> tuple[PoolSpec, ...]:
    """Return the pools as they are to run: `auto` replaced by the class that `up --isolation` named."""
    if cluster.isolation is None:
        return pools
    fixed: Any = cluster.isolation  # checked when the folder was read
    return check_pools(
        [
            msgspec.structs.replace(pool, isolation=fixed) if pool.isolation == "auto" else pool
            for pool in pools
        ]
    )


def write_effective(folder: Folder, pools: tuple[PoolSpec, ...]) -> None:
    """Write the pools as they are to run, for the pool-managers."""
    with translating(folder.effective_pools_file):
        replace_file(folder.effective_pools_file, to_toml(pools).encode())


def to_toml(pools: tuple[PoolSpec, ...]) -> str:
    """Return a declaration that reads back as these pools."""
    return "\n".join("[[pool]]\n" + toml_lines(msgspec.to_builtins(pool)) for pool in pools)


def toml_lines(fields: Mapping[str, Any]) -> str:
    """Return fields as lines of TOML, what is in them on the same line; those that are null are left out."""
    return "".join(
        f"{name} = {_value(value)}\n" for name, value in fields.items() if value is not None
    )


def _value(value: Any) -> str:
    """Return a value as TOML has it on one line; what is null is left out there."""
    if isinstance(value, Mapping):
        told = (f"{name} = {_value(each)}" for name, each in value.items() if each is not None)
        return "{" + ", ".join(told) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(_value(each) for each in value) + "]"
    # JSON's strings and numbers are TOML's as well.
    return msgspec.json.encode(value).decode()


def check_isolation(pools: tuple[PoolSpec, ...], nodes: Mapping[str, Mapping[str, str]]) -> None:
    """Check that each pool's promise can be kept by some node.

    Args:
        pools: as they are to run.
        nodes: name of each node -> class -> empty where it has the class, else why not.

    Raises:
        NotFound: no node has what a pool promises; says why.
    """
    for pool in pools:
        if pool.isolation == "auto":
            wanted = [name for name in ISOLATION_CLASSES if name not in NAMED_ONLY]
        else:
            wanted = [pool.isolation]
        if any(classes.get(name) == "" for classes in nodes.values() for name in wanted):
            continue
        reasons = {
            name: classes[name]
            for classes in nodes.values()
            for name in wanted
            if classes.get(name)
        }
        why = (
            "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
            or "no node offers it"
        )
        raise NotFound(
            f"no usable isolation for pool {pool.name!r} (isolation = {pool.isolation!r}): {why}. "
            "To run without walls, name it: --isolation process"
        )
