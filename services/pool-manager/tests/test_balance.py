"""Which leaders move back, and when none does."""

from __future__ import annotations

from contextlib import suppress

import pytest
from msgspec.structs import replace

from pool_manager.adapters.leaders import StreamLeaders
from pool_manager.core.balance import CATCHING_UP, Move, Replica, Seat, plan
from pool_manager.core.lost import Bounds
from pool_manager.core.world import World
from pool_manager.loops.balance import Balancer
from shared.bus import Bus
from shared.bus.leaders import all_led, place, state_of, step_down
from shared.errors import ServiceError
from shared.testing.look import until
from shared.testing.plugin import POOLS, declared

WELL = Replica(current=True)
HOME = Seat("0", 0, "n1", {"n2": WELL, "n3": WELL})
AWAY = Seat("1", 1, "n1", {"n2": WELL, "n3": WELL})


def with_replica(seat: Seat, name: str, replica: Replica) -> Seat:
    """Return the seat with another replica under that name."""
    return replace(seat, replicas={**seat.replicas, name: replica})


def test_only_what_is_led_elsewhere_moves_and_to_its_own_server() -> None:
    """Servers count in the order of their names."""
    third = Seat("Q2.default-batch", 2, "n2", {"n1": WELL, "n3": WELL})

    assert plan([HOME, AWAY, third], 9) == [Move("1", "n2"), Move("Q2.default-batch", "n3")]


def test_a_round_makes_no_more_moves_than_it_may() -> None:
    """The rest comes in the next."""
    seats = [replace(AWAY, path=f"Q1.p{number}-batch") for number in range(5)]

    assert len(plan(seats, 2)) == 2


@pytest.mark.parametrize(
    "trouble",
    [
        replace(HOME, leader=""),
        with_replica(HOME, "n3", Replica(current=False, offline=True)),
        with_replica(HOME, "n2", Replica(current=False, lag=CATCHING_UP + 1)),
    ],
    ids=["a leader is missing", "a server is down", "a server fetches what it missed"],
)
def test_nothing_moves_while_the_cluster_is_not_whole(trouble: Seat) -> None:
    """Not even what is in order itself."""
    assert plan([AWAY, trouble], 9) == []


@pytest.mark.parametrize("name", ["n2", "n3"])
@pytest.mark.parametrize("behind", [Replica(current=True, lag=1), Replica(current=False)])
def test_a_seat_waits_while_one_of_its_replicas_is_behind(name: str, behind: Replica) -> None:
    """Be it the one that shall lead or another."""
    other = replace(AWAY, path="I1")

    assert plan([with_replica(AWAY, name, behind), other], 9) == [Move("I1", "n2")]


async def test_a_round_brings_all_leaders_home(admin_bus: Bus) -> None:
    """Streams and consumers, on real servers, as a pool-manager does it."""
    led = all_led(declared())
    for path in ("1", "Q0", "Q2.default-interactive"):
        wanted = next(one for one in led if one.path == path)
        await step_down(admin_bus, path, f"n{(wanted.server + 1) % 3 + 1}")
    balancer = Balancer(World("pm", POOLS, Bounds(), 0.0), StreamLeaders(admin_bus, POOLS))
    before = [one.path for one in led if await leader(admin_bus, one.path) != f"n{one.server + 1}"]

    async def home() -> bool:
        with suppress(ServiceError):  # one just hands over
            await balancer.balance()
        found = [await leader(admin_bus, one.path) == f"n{one.server + 1}" for one in led]
        return all(found)

    assert set(before) >= {"1", "Q0", "Q2.default-interactive"}
    try:
        await until(home, within_s=20)
    finally:
        await place(admin_bus, declared())


async def leader(bus: Bus, path: str) -> str:
    """Return who leads a stream or consumer, once somebody does."""
    led = next(one for one in all_led(declared()) if one.path == path)

    async def found() -> str:
        with suppress(ServiceError):  # it just hands over
            return str((await state_of(bus, led)).get("leader") or "")
        return ""

    name: str = await until(found)
    return name
