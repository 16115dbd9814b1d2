"""A pool with a promise on a real cluster: its stock follows demand, outlives its manager, and says why it is what it is."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_sandbox import Client, ClientOptions
from agent_sandbox.cli.shapes import SHAPES
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.table import read_table
from shared.errors import OutcomeUnknown
from shared.messages import Message
from shared.testing.look import until
from shared.views import PoolsAnswer, PoolView

POOLS = """\
[[pool]]
name = "people"
stock = 1
pods_max = 40
[pool.promise]
cold_share = 0.05
"""


@pytest.fixture
async def cluster(place: Path, cli_on: Callable[..., Any]) -> AsyncIterator[Folder]:
    """A cluster of its own: the pool has a promise, and a manager is killed."""
    pools = place / "promise.toml"
    pools.write_text(POOLS)
    folder = Folder(place / "promise")
    try:
        up = await asyncio.to_thread(
            cli_on, "up", "--pools", str(pools), "--wait", "45", state=folder.path
        )
        assert up.returncode == 0, up.stderr
        yield folder
    finally:
        await asyncio.to_thread(cli_on, "down", state=folder.path)


async def view(client: Client) -> PoolView:
    """Return how the pool is."""
    return (await client.ask("pools", Message(), PoolsAnswer)).pools[0]


async def wave(client: Client, count: int) -> None:
    """Run so many one-shots at once."""

    async def one() -> None:
        result = await client.run(["true"], pool="people")
        assert result.status == "ok", result

    await asyncio.gather(*(one() for _ in range(count)))


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_the_stock_follows_a_changing_load_and_a_manager_that_dies(
    cluster: Folder, cli_on: Callable[..., Any]
) -> None:
    """Load comes: the stock rises above what was declared. Its decider dies: the other holds what was decided, and goes on."""
    options = ClientOptions(state=cluster.path)
    async with Client(options) as client:
        began = await view(client)
        assert began.stock <= 3
        for _ in range(25):
            await wave(client, 6)
            if (high := await view(client)).stock >= 5:
                break
        assert high.stock >= 5, high
        assert high.policy is not None
        assert high.policy.rate_per_s > 0
        decider = high.policy.manager
        table = read_table(cluster)
        assert table is not None
        killed = next(row.process for row in table.rows if row.name == decider)
        assert killed is not None
        assert killed.send(signal.SIGKILL)

        async def goes_on() -> bool:
            try:
                found = await view(client)
            except OutcomeUnknown:  # asked of the one that was killed
                return False
            return found.stock >= 3 and found.policy is not None and found.policy.rate_per_s > 0

        # Whoever decides now: the other, or the killed one, which is back under its name and read its record.
        await until(goes_on, within_s=30)
        await wave(client, 6)

        async def falls() -> bool:
            return (await view(client)).stock < high.stock

        await until(falls, within_s=120)
    told = await asyncio.to_thread(cli_on, "pool", "explain", "people", state=cluster.path)
    assert "activations a second" in told.stdout, told.stderr
    for name in ("pool explain", "pool simulate"):
        done = await asyncio.to_thread(
            cli_on, *name.split(), "people", "--json", state=cluster.path
        )
        assert done.returncode == 0, done.stderr
        msgspec.json.decode(done.stdout, type=SHAPES[name][0])


def test_a_pool_whose_stock_is_a_number_says_so(cli: Callable[..., Any]) -> None:
    """There is nothing to explain, and nothing to simulate without a demand that was watched."""
    told = cli("pool", "explain", "default", "--json")
    refused = cli("pool", "simulate", "default")

    assert json.loads(told.stdout)["explained"] == ["its stock is a number, as declared: 4"]
    assert refused.returncode == 125
    assert "no promise" in refused.stderr


def test_a_backtest_needs_no_cluster(cli_on: Callable[..., Any], tmp_path: Path) -> None:
    """Arrivals of one's own through the policy and through what others do; the picture is drawn."""
    trace, picture = tmp_path / "mine.csv", tmp_path / "curves.svg"
    trace.write_text("t_s\n" + "".join(f"{at * 2.1 + at % 3}\n" for at in range(800)))
    words = ("--trace", str(trace), "--start-s", "5", "--picture", str(picture), "--json")
    done = cli_on("pool", "backtest", *words, state=tmp_path)

    assert done.returncode == 0, done.stderr
    found = msgspec.json.decode(done.stdout, type=SHAPES["pool backtest"][0])
    assert [curve.policy for curve in found.curves][:2] == ["self-tuning", "fixed N"]
    assert picture.read_text().startswith("<svg")
