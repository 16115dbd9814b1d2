"""Pools as operators declare them in TOML."""

from __future__ import annotations

import pytest

from shared.errors import InvalidMessage
from shared.pools import ISOLATION_CLASSES, PodLimits, PoolSpec, Volume, check_pools, parse_pools

TWO = """
[[pool]]
name = "default"
stock = 8

[[pool]]
name = "small"
stock = 0
isolation = "landlock"
on_interrupt = "fail"
checkpoint_every_s = 5
durability = "relaxed"
idle_release_s = 1.5
[pool.limits]
memory_mib = 128
cpu = 0.5
"""


def test_a_declaration_is_read() -> None:
    """In its order; what is not said has its default."""
    assert parse_pools(TWO) == (
        PoolSpec(name="default", stock=8),
        PoolSpec(
            name="small",
            stock=0,
            isolation="landlock",
            on_interrupt="fail",
            checkpoint_every_s=5,
            durability="relaxed",
            idle_release_s=1.5,
            limits=PodLimits(memory_mib=128, cpu=0.5),
        ),
    )


def pool(line: str) -> str:
    """Return a declaration of one pool with one more line."""
    return f'[[pool]]\nname = "p"\n{line}\n'


def volume(line: str, more: str = "") -> str:
    """Return a declaration of one pool on a volume with one more line for that, and one for the pool."""
    return pool(f'isolation = "oci"\nworkspace = "pvc"\n{more}\n[pool.volume]\n{line}')


def test_a_pool_on_a_volume_fails_what_was_interrupted_unless_it_says_otherwise() -> None:
    """A task that runs again finds there what it did before; elsewhere it begins from a snapshot."""
    [on_volume] = parse_pools(volume('storage_class = "shared"\nsize_gib = 50'))
    [told] = parse_pools(volume("", 'on_interrupt = "rerun"'))
    [saved] = parse_pools(pool(""))

    assert on_volume.volume == Volume(storage_class="shared", size_gib=50)
    assert [on_volume.interrupt_rule, told.interrupt_rule] == ["fail", "rerun"]
    assert (saved.on_volume, saved.interrupt_rule) == (False, "rerun")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", ["pool", "missing"]),
        ("pool = []", ["at least one"]),
        ("[[pool]\n", ["pools: "]),
        ("[[pool]]\nstock = 1", ["missing", "name"]),
        (pool("stcok = 8"), ["unknown", "stcok"]),
        (pool('workspace = "disk"'), ["workspace", "disk"]),
        (pool('workspace = "pvc"'), ["isolation", "auto", "oci, gvisor, kata"]),
        (pool("volume = {}"), ["volume", 'workspace = "pvc"']),
        (volume("size_gib = 0"), ["size_gib", ">= 1"]),
        (volume('access_mode = "ReadOnlyMany"'), ["access_mode", "ReadOnlyMany"]),
        (volume('access_mode = "ReadOnlyMany"'), ["volume.access_mode"]),
        (volume('storage_class = "Fast_1"'), ["storage_class", "regex"]),
        (volume("", 'exclude = ["*.pyc"]'), ["exclude", "none expected"]),
        (volume("", 'durability = "relaxed"'), ["durability", "saved expected"]),
        (pool('stock = "8"'), ["stock", "int"]),
        (pool("stock = -1"), ["stock", ">= 0"]),
        (pool("stock = 5001"), ["stock", "<= 5000"]),
        (pool("pods_max = 0"), ["pods_max", ">= 1"]),
        (pool("starting_max = 0"), ["starting_max", ">= 1"]),
        (pool('isolation = "jail"'), ["isolation", "jail"]),
        (pool('on_interrupt = "retry"'), ["on_interrupt", "retry"]),
        (pool("checkpoint_every_s = 0.5"), ["checkpoint_every_s", ">= 1"]),
        (pool('durability = "none"'), ["durability", "none"]),
        (pool("idle_release_s = 0"), ["idle_release_s", "> 0"]),
        (pool("batch_first_every = 1"), ["batch_first_every", ">= 2"]),
        (pool("limits = {memory_mib = 31}"), ["memory_mib", ">= 32"]),
        (pool("limits = {pids = 7}"), ["pids", ">= 8"]),
        (pool("limits = {cpu = 0}"), ["cpu", "> 0"]),
        (pool("limits = {disk_mib = 0}"), ["disk_mib", ">= 1"]),
        (pool("limits = {gpu = 1}"), ["unknown", "gpu"]),
        (pool("[colour]"), ["unknown", "colour"]),
    ],
)
def test_a_mistake_is_named(text: str, named: list[str]) -> None:
    """The field and what it may be."""
    with pytest.raises(InvalidMessage) as refusal:
        parse_pools(text)

    assert [word for word in named if word not in str(refusal.value)] == []


@pytest.mark.parametrize(
    ("exclude", "named"),
    [
        (["*.pyc"] * 65, "$.pool[0].exclude"),
        (["x" * 257], "$.pool[0].exclude[0]"),
        (["ok", ""], "$.pool[0].exclude[1]"),
        (["/"], "pool 'a': exclude: '/'"),
        ([" a"], "pool 'a': exclude: ' a'"),
    ],
)
def test_patterns_that_mean_nothing_or_are_too_many_are_refused(
    exclude: list[str], named: str
) -> None:
    """Commas part them on their way to the worker."""
    with pytest.raises(InvalidMessage) as refusal:
        parse_pools(f'[[pool]]\nname = "a"\nexclude = {exclude}\n')
    assert named in str(refusal.value)
    (found,) = parse_pools('[[pool]]\nname = "a"\nexclude = ["*.pyc", "build/*", "a,b"]\n')
    assert found.exclude == ("*.pyc", "build/*", "a,b")


@pytest.mark.parametrize("name", ["Default", "a.b", "a_b", "-a", "", "a" * 33])
def test_a_pool_s_name_is_a_subject_s_token(name: str) -> None:
    """It becomes part of subjects and of consumers' names."""
    with pytest.raises(InvalidMessage, match=r"^pool\.name: "):
        check_pools([PoolSpec(name=name)])


def test_two_pools_of_one_name_are_refused() -> None:
    """Which of the two would hold?"""
    with pytest.raises(InvalidMessage, match="'a' is declared twice"):
        check_pools([PoolSpec(name="a"), PoolSpec(name="b"), PoolSpec(name="a")])


def test_a_stock_above_the_pool_s_cap_is_refused() -> None:
    """It could never be filled."""
    with pytest.raises(InvalidMessage, match="pool 'a': stock 9 is above pods_max 8"):
        check_pools([PoolSpec(name="a", stock=9, pods_max=8)])


def test_every_class_can_be_promised() -> None:
    """From the weakest to the strongest, and `auto`."""
    for isolation in ("auto", *ISOLATION_CLASSES):
        (found,) = parse_pools(pool(f'isolation = "{isolation}"'))
        assert found.isolation == isolation
