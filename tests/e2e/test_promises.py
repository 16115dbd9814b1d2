"""The commands about a pool's stock: why it is what it is, and what another promise would cost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from agent_sandbox.cli.shapes import SHAPES


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
