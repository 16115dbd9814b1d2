"""Loads to replay: random ones, whose best possible cost is known, and the shipped traces at a pool's own scale."""

from __future__ import annotations

import bisect
import math
import random
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path

from pool_manager.backtest.replay import Load
from pool_manager.backtest.traces import WINDOW_S, RateRow, read_arrivals, read_rates, shipped

RATE_PER_S = 0.5
DAY_S = 86_400
LEAD_DEVIATION = 0.25
"""Standard deviation of start-ups over their mean."""
BUSY_MEAN_S = 120.0
BUSY_SIGMA = 1.1
DRAWS = 50_021
SMOOTH_S = 90
"""Over so long the rate oracle sees a trace's own arrivals smoothed."""
STRETCH = {"azure-conv": 10.0, "azure-code": 5.0, "mooncake": 1.0}
"""The shipped hours hold more than one pool serves: their time is stretched to about one activation in two seconds."""


def make(
    name: str,
    arrivals_s: Sequence[float],
    rates: Sequence[float] | None,
    *,
    lead_s: float,
    seed: int,
) -> Load:
    """Return a load of these arrivals, with start-ups and sessions as random as real ones."""
    draws = random.Random(f"{name}/{seed}")
    sigma = math.sqrt(math.log(1 + LEAD_DEVIATION**2))
    shift = BUSY_SIGMA**2 / 2
    return Load(
        name=name,
        arrivals_s=arrivals_s,
        leads_s=[lead_s * math.exp(sigma * draws.gauss(0, 1) - sigma**2 / 2) for _ in range(DRAWS)],
        busy_s=[
            BUSY_MEAN_S * math.exp(BUSY_SIGMA * draws.gauss(0, 1) - shift) for _ in range(DRAWS)
        ],
        warm_up_s=min(1800.0, arrivals_s[-1] / 4),
        rates_per_s=rates if rates is not None else smoothed(arrivals_s),
    )


def poisson(*, lead_s: float, seed: int, count: int = 40_000) -> Load:
    """Return arrivals at random, one in two seconds on average."""
    draws = random.Random(f"poisson {seed}")
    arrivals = list(accumulate(draws.expovariate(RATE_PER_S) for _ in range(count)))
    rates = [RATE_PER_S] * (int(arrivals[-1]) + 1)
    return make("poisson", arrivals, rates, lead_s=lead_s, seed=seed)


def bursts(*, lead_s: float, seed: int, count: int = 40_000) -> Load:
    """Return arrivals at random whose rate jumps: 0.2/s for about 300 s, then 2/s for about 60 s (MMPP)."""
    draws = random.Random(f"bursts {seed}")
    arrivals: list[float] = []
    rates: list[float] = []
    now, high = 0.0, False
    while len(arrivals) < count:
        rate, until = (
            (2.0, draws.expovariate(1 / 60)) if high else (0.2, draws.expovariate(1 / 300))
        )
        at, until = now + draws.expovariate(rate), now + until
        while at < until:
            arrivals.append(at)
            at += draws.expovariate(rate)
        rates += [rate] * (int(until) - len(rates))
        now, high = until, not high
    return make("mmpp", arrivals, rates, lead_s=lead_s, seed=seed)


def trace(name: str, *, lead_s: float, seed: int) -> Load:
    """Return a shipped trace of single arrivals at a pool's scale."""
    jitter = random.Random(f"{name} {seed}") if name == "mooncake" else None
    arrivals = read_arrivals(shipped(name))
    if jitter is not None:  # its publisher put them on a grid of 3 s
        arrivals = sorted(at + jitter.uniform(0, 3) for at in arrivals)
    stretched = [at * STRETCH.get(name, 1.0) for at in arrivals]
    return make(name, stretched, None, lead_s=lead_s, seed=seed)


def servegen(*, lead_s: float, seed: int, days: int = 3, from_day: int | None = None) -> Load:
    """Return days of the shipped rates, scaled to one activation in two seconds on average."""
    rows = read_rates(shipped("servegen")) or []
    first = DAY_S * (1 + 2 * (seed % 5) if from_day is None else from_day)
    chosen = [row for row in rows if first <= row.t_s < first + days * DAY_S]
    return of_rates("servegen", chosen, lead_s=lead_s, seed=seed)


def of_rates(name: str, rows: Sequence[RateRow], *, lead_s: float, seed: int) -> Load:
    """Return arrivals drawn from rates and forms of gaps, scaled to one activation in two seconds on average."""
    begin = min(row.t_s for row in rows)
    end = max(row.t_s for row in rows) + WINDOW_S
    scale = RATE_PER_S * (end - begin) / sum(row.rate_per_s * WINDOW_S for row in rows)
    path = [0.0] * int(end - begin)
    clients: dict[str, list[RateRow]] = {}
    for row in sorted(rows, key=lambda row: row.t_s):
        clients.setdefault(row.client, []).append(row)
        at = int(row.t_s - begin)
        for second in range(at, at + WINDOW_S):
            path[second] += row.rate_per_s * scale
    draws = random.Random(f"{name} {seed}")
    arrivals = [
        at for client in sorted(clients) for at in _renewals(clients[client], begin, scale, draws)
    ]
    return make(name, sorted(arrivals), path, lead_s=lead_s, seed=seed)


def _renewals(
    rows: Sequence[RateRow], begin: float, scale: float, draws: random.Random
) -> list[float]:
    """Draw one client's arrivals: gaps of the measured form in a time that runs as fast as its rate is high."""
    ends = list(accumulate(row.rate_per_s * scale * WINDOW_S for row in rows))
    at, found = draws.uniform(0, 1), []
    while at < ends[-1]:
        index = bisect.bisect_right(ends, at)
        row = rows[index]
        into = at - (ends[index - 1] if index else 0.0)
        found.append(row.t_s - begin + into / (row.rate_per_s * scale))
        at += _gap(row, draws)
    return found


def _gap(row: RateRow, draws: random.Random) -> float:
    """Draw a gap of mean 1."""
    if row.pattern == "Gamma":
        shape = min(max(row.shape, 0.02), 50.0)
        return draws.gammavariate(shape, 1 / shape)
    shape = min(max(row.shape, 0.15), 50.0)
    return draws.weibullvariate(1.0, shape) / math.gamma(1 + 1 / shape)


def smoothed(arrivals_s: Sequence[float]) -> list[float]:
    """Return the rate of each second: the arrivals around it, over `SMOOTH_S`."""
    seconds = int(arrivals_s[-1]) + SMOOTH_S
    counts = [0] * seconds
    for at in arrivals_s:
        counts[int(at)] += 1
    sums = [0, *accumulate(counts)]
    half = SMOOTH_S // 2
    return [
        (sums[min(second + half, seconds)] - sums[max(second - half, 0)]) / SMOOTH_S
        for second in range(seconds)
    ]


def from_file(path: Path, *, lead_s: float, stretch: float = 1.0, seed: int = 0) -> Load:
    """Return the load of a file: its arrivals as they came, or some drawn from its rates.

    Raises:
        InvalidMessage: nothing can be read out of it.
    """
    rows = read_rates(path)
    if rows is not None:
        return of_rates(path.stem, rows, lead_s=lead_s, seed=seed)
    arrivals = [at * stretch for at in read_arrivals(path)]
    return make(path.stem, arrivals, None, lead_s=lead_s, seed=seed)


def as_now(
    rate_per_s: float, dispersion: float, *, lead_s: float, seed: int = 0, count: int = 20_000
) -> Load:
    """Return random arrivals of a rate, as bursty as a pool's demand was found to be: gaps of a Gamma form."""
    draws = random.Random(f"now {seed}")
    shape = 1 / min(max(dispersion, 1.0), 100.0)
    gaps = (draws.gammavariate(shape, 1 / (shape * rate_per_s)) for _ in range(count))
    arrivals = list(accumulate(gaps))
    rates = [rate_per_s] * (int(arrivals[-1]) + 1)
    return make(f"{rate_per_s:g}/s", arrivals, rates, lead_s=lead_s, seed=seed)


WORKLOADS: dict[str, Callable[[float, int], Load]] = {
    "poisson": lambda lead_s, seed: poisson(lead_s=lead_s, seed=seed),
    "azure-conv": lambda lead_s, seed: trace("azure-conv", lead_s=lead_s, seed=seed),
    "servegen": lambda lead_s, seed: servegen(lead_s=lead_s, seed=seed),
    "mmpp": lambda lead_s, seed: bursts(lead_s=lead_s, seed=seed),
    "azure-code": lambda lead_s, seed: trace("azure-code", lead_s=lead_s, seed=seed),
    "mooncake": lambda lead_s, seed: trace("mooncake", lead_s=lead_s, seed=seed),
}
"""By name, for a mean start-up and a seed."""
