"""The backtest: what it says must be right where the truth is known."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pool_manager.backtest import workloads
from pool_manager.backtest.base_stock import replay_fixed
from pool_manager.backtest.compare import fixed, ours, self_tuning
from pool_manager.backtest.oracles import poisson_optimum_idle_s, poisson_quantile
from pool_manager.backtest.replay import Load, Outcome, replay
from pool_manager.backtest.rivals import KedaLike, KnativeLike
from pool_manager.backtest.tiers import replay_tiers
from pool_manager.backtest.traces import read_arrivals, read_rates, shipped
from pool_manager.core.policy import Seen, SelfTuning, Target
from shared.errors import InvalidMessage
from shared.pools import Promise

LEAD_S = 45.0


class FixedStock:
    """So many pods warm or starting, whatever comes."""

    on_every_event = True

    def __init__(self, stock: int) -> None:
        """Hold `stock`."""
        self._target = Target(stock)

    def activated(self, klass: str, *, waited: bool) -> None:
        """It makes no difference."""

    def tick(self, seen: Seen) -> Target:
        """Hold the same."""
        return self._target


@pytest.fixture(scope="module")
def load() -> Load:
    """Two hours of activations at random, one in two seconds."""
    return workloads.poisson(lead_s=LEAD_S, seed=1, count=6000)


def test_the_exact_optimum_is_that_of_the_table_of_poisson() -> None:
    """0.5/s and 45 s: 35 pods keep waits below 1 %, at 24.4 idle pod-seconds for each activation."""
    assert poisson_quantile(22.5, 0.99) + 1 == 35
    assert poisson_optimum_idle_s(0.5, LEAD_S, 0.01) == pytest.approx(24.4, abs=0.4)


def test_a_fixed_stock_costs_what_the_formula_says(load: Load) -> None:
    """The replay agrees with Palm's theorem, whatever the distribution of start-ups."""
    found = replay(load, FixedStock(30))

    assert found.idle_s == pytest.approx(
        poisson_optimum_idle_s(0.5, LEAD_S, found.cold_share), rel=0.08
    )


def test_the_production_policy_comes_near_the_optimum_and_keeps_its_promise(load: Load) -> None:
    """Arrivals at random, 5 % may wait: within a quarter of the optimum from a cold start, in two hours."""
    found = replay(load, self_tuning(0.05))

    assert found.cold_share == pytest.approx(0.05, abs=0.02)
    assert found.idle_s < 1.25 * poisson_optimum_idle_s(0.5, LEAD_S, found.cold_share)


def test_prices_alone_hold_a_stock_near_the_share_at_which_they_balance(load: Load) -> None:
    """A pod-second for 1, a wait for 100: about one in twenty waits at 0.5/s and 45 s, not each of them."""
    found = replay(load, SelfTuning(Promise(idle_cost_per_hour=3600.0, cold_cost=100.0)))

    assert 0.01 < found.cold_share < 0.12
    assert found.idle_s < 1.25 * poisson_optimum_idle_s(0.5, LEAD_S, found.cold_share)


def test_what_others_do_waits_more_or_idles_more(load: Load) -> None:
    """By their defaults most activations wait for a start of 45 s, since queues are empty until somebody waits."""
    keda, knative = replay(load, KedaLike(1.0)), replay(load, KnativeLike(0.7))

    assert keda.cold_share > 0.05
    assert knative.cold_share > 0.15


def test_every_activation_gets_one_pod_and_every_pod_is_accounted_for(load: Load) -> None:
    """With a stock of 0 nothing idles, each waits for its own pod, and no pod more is started."""
    found = replay(load, FixedStock(0))

    assert found.idle_s == 0
    assert found.cold_share == 1
    assert found.starts == 1
    assert found.wait_p50_s == pytest.approx(44, abs=2)


def test_the_smallest_fixed_stock_is_found(load: Load) -> None:
    """The curve has the last stock that holds the share, and the next smaller one that does not."""
    curve = fixed(load, LEAD_S, 0.02)
    holding = [p for p in curve.points if p.outcome.cold_share <= 0.02]
    breaking = [p for p in curve.points if p.outcome.cold_share > 0.02]

    assert int(holding[0].setting.split()[1]) == int(breaking[-1].setting.split()[1]) + 1
    assert curve.idle_at(0.02) is not None
    assert curve.idle_at(-1) is None


def test_two_tiers_cost_less_than_one_at_the_same_promise(load: Load) -> None:
    """Warm pods cover 2 s of promotion instead of 45 s of a start; paused ones are cheap."""
    promise = Promise(cold_share=0.02)
    single = replay(load, self_tuning(0.02))
    both = replay_tiers(load, [1.8, 2.0, 2.2], promise)

    assert both.cost_s < 0.8 * single.idle_s
    assert both.cold_share < 0.03


def test_the_shipped_traces_are_read(tmp_path: Path) -> None:
    """As many arrivals as their README says, from zero on and in order; the rates are rates."""
    conv = read_arrivals(shipped("azure-conv"))

    assert len(conv) == 19_366
    assert conv[0] == 0
    assert conv == sorted(conv)
    assert 3400 < conv[-1] < 3600
    assert len(read_arrivals(shipped("azure-code"))) == 8819
    assert len(read_arrivals(shipped("mooncake"))) == 12_031
    rates = read_rates(shipped("servegen"))
    assert rates is not None
    assert len({row.client for row in rates}) == 12


def test_a_day_of_rates_becomes_arrivals_at_half_one_a_second() -> None:
    """Renewal arrivals per client keep the measured form of gaps, and the mean that was asked for."""
    load = workloads.servegen(lead_s=LEAD_S, seed=0, days=1)

    assert len(load.arrivals_s) / 86_400 == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "t_s,what\n10,a\n11.5,b\n14,c\n"),
        (
            "t.csv",
            "TIMESTAMP,n\n2023-11-16 18:15:10.0000000,1\n2023-11-16 18:15:11.5000000,1\n2023-11-16 18:15:14,1\n",
        ),
        ("t.jsonl", '{"t_ms": 0}\n{"t_ms": 1500}\n\n{"t_ms": 4000}\n'),
    ],
)
def test_any_file_with_times_is_read(tmp_path: Path, name: str, text: str) -> None:
    """CSV by its column, JSONL by its field; numbers or dates."""
    path = tmp_path / name
    path.write_text(text)

    assert read_arrivals(path) == pytest.approx([0, 1.5, 4])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("t.csv", "a,b\n1,2\n3,4\n", "row 1: a column t_s"),
        ("t.csv", "t_s\n1\nnever\n", "row 2: t_s"),
        ("t.csv", "t_s\n1\n", "at least two"),
        ("t.jsonl", "{\n", "JSON object"),
    ],
)
def test_a_file_without_times_is_refused_with_its_line(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    """Whoever wrote the file finds what is wrong with it."""
    path = tmp_path / name
    path.write_text(text)

    with pytest.raises(InvalidMessage, match=said):
        read_arrivals(path)


def test_the_program_prints_the_curves_and_draws_them(tmp_path: Path) -> None:
    """A table for people, an object for programs, and an SVG file; a wrong file ends it with code 2."""
    trace, picture = tmp_path / "t.csv", tmp_path / "curves.svg"
    trace.write_text("t_s\n" + "".join(f"{at * 1.7 + at % 5}\n" for at in range(1500)))
    command = [sys.executable, "-m", "pool_manager.backtest"]
    told = subprocess.run(
        [*command, "--trace", str(trace), "--start-s", "5", "--picture", str(picture), "--json"],
        capture_output=True, text=True, timeout=50, check=True,
    )  # fmt: skip
    said = json.loads(told.stdout)

    policies = [curve["policy"] for curve in said["curves"]]
    assert policies == [
        "self-tuning",
        "fixed N",
        "KEDA-like",
        "Knative-like",
        "rate oracle",
        "seer",
    ]
    assert said["idle_s_at_cold_share"]["fixed N"] > 0
    assert "self-tuning" in picture.read_text()
    wrong = subprocess.run(
        [*command, "--trace", str(tmp_path / "none.csv")],
        capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert wrong.returncode == 2
    assert "none.csv" in wrong.stderr


def test_promises_are_compared_for_a_demand_of_now(load: Load) -> None:
    """Whoever halves the share that may wait pays more."""
    now = workloads.as_now(0.5, 2.0, lead_s=5.0, count=4000)
    curve = ours(now, (0.1, 0.01))
    cheap, dear = (point.outcome for point in curve.points)

    assert dear.idle_s > cheap.idle_s
    assert dear.cold_share < cheap.cold_share


@pytest.mark.parametrize("stock", [0, 7, 24, 60])
def test_a_fixed_stock_without_events_is_the_one_with_events(load: Load, stock: int) -> None:
    """Sorted times tell the same as the replay of each event, to the last digit that matters."""
    fast, slow = replay_fixed(load, stock), replay(load, FixedStock(stock))

    for field in Outcome.__struct_fields__:
        assert getattr(fast, field) == pytest.approx(getattr(slow, field), rel=1e-9), field
