"""Pools of an embedded cluster: declared, as they run, and whether this machine can keep their promises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.embedded.folder import ClusterFile
from agent_sandbox.embedded.pools import DEFAULT_POOLS, check_isolation, effective, to_toml
from shared.errors import NotFound
from shared.pools import ISOLATION_CLASSES, Hours, PodLimits, PoolSpec, Promise, parse_pools

HAS_LANDLOCK = {"node-1": {"process": "", "landlock": "", "namespace": "needs root"}}
HAS_NOTHING = {"node-1": {"process": "", "landlock": "no Landlock", "namespace": "needs root"}}


def cluster(isolation: str | None) -> ClusterFile:
    """Return a cluster for which this class was wished."""
    return ClusterFile(id="0" * 16, created_ms=1, isolation=isolation)


def test_the_default_pools_are_a_warm_and_a_cold_one() -> None:
    """The file that the first `up` writes can be read, and holds what it says."""
    pools = {pool.name: pool for pool in parse_pools(DEFAULT_POOLS)}

    assert (pools["default"].stock, pools["cold"].stock) == (8, 0)
    assert {pool.isolation for pool in pools.values()} == {"auto"}


@given(
    st.builds(
        PoolSpec,
        name=st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True),
        stock=st.integers(0, 50),
        isolation=st.sampled_from(["auto", *ISOLATION_CLASSES]),
        idle_release_s=st.floats(0.1, 1000),
        limits=st.builds(PodLimits, cpu=st.floats(0.01, 8), memory_mib=st.integers(32, 4096)),
        exclude=st.sampled_from([(), ("*.pyc", 'a"b')]),
        promise=st.none()
        | st.builds(
            Promise,
            cold_share=st.floats(0.0005, 0.5),
            stock_max=st.none() | st.integers(5, 50),
            hours=st.sampled_from([(), (Hours(days=("mon", "sun"), begin="22:00", end="06:30"),)]),
        ),
    )
)
def test_pools_written_for_the_managers_read_back_the_same(pool: PoolSpec) -> None:
    """What runs is what was declared."""
    assert parse_pools(to_toml((pool, PoolSpec(name="another-one")))) == (
        pool,
        PoolSpec(name="another-one"),
    )


def test_a_wished_class_replaces_auto_and_nothing_else() -> None:
    """A pool that names its class keeps it."""
    pools = (PoolSpec(name="free"), PoolSpec(name="fixed", isolation="namespace"))

    assert [pool.isolation for pool in effective(pools, cluster("landlock"))] == [
        "landlock",
        "namespace",
    ]
    assert effective(pools, cluster(None)) == pools


def test_a_promise_that_some_node_can_keep_is_accepted() -> None:
    """One node is enough; `auto` takes what there is."""
    pools = (PoolSpec(name="a"), PoolSpec(name="b", isolation="process"))

    check_isolation(pools, HAS_LANDLOCK)
    check_isolation(pools[1:], HAS_NOTHING)


def test_auto_never_falls_to_no_walls_at_all() -> None:
    """`process` must be named; the reasons of the others and the way out are said."""
    with pytest.raises(NotFound) as refused:
        check_isolation((PoolSpec(name="a"),), HAS_NOTHING)

    for words in (
        "no usable isolation for pool 'a'",
        "landlock: no Landlock",
        "--isolation process",
    ):
        assert words in str(refused.value)


def test_a_named_class_that_no_node_has_is_refused_with_its_reason() -> None:
    """Never below what was promised."""
    with pytest.raises(NotFound, match="namespace: needs root"):
        check_isolation((PoolSpec(name="a", isolation="namespace"),), HAS_LANDLOCK)
