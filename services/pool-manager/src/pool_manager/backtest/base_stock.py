"""A pool that always holds the same number, replayed without events: what each activation gets follows from sorted times.

Its pods are ordered when activations come, whatever else happens. Pods serve in the order in which they are ready, and
activations in the order in which they come: so the k-th activation gets the k-th pod, and either waits for it or finds it idle.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import cycle
from operator import add

from pool_manager.backtest.replay import Load, Outcome, at_share

FIRST_S = 1.0
"""The stock is ordered at the end of the first second, as any policy's."""


def replay_fixed(load: Load, stock: int) -> Outcome:
    """Return what `replay` would with a policy of one constant position, in a fraction of its time.

    Args:
        load: one that begins without pods.
        stock: warm + starting - waiting.
    """
    arrivals, warm_up_s, last_s = load.arrivals_s, load.warm_up_s, load.arrivals_s[-1]
    before = bisect_left(arrivals, FIRST_S)
    ordered = [*arrivals[:before], *[FIRST_S] * stock, *arrivals[before:]]
    ready = sorted(map(add, ordered, cycle(load.leads_s)))
    skipped = bisect_right(arrivals, warm_up_s)
    served = list(zip(arrivals[skipped:], ready[skipped:], strict=False))
    if not served:
        raise ValueError(f"{load.name}: nothing arrives after the first {warm_up_s:g} s")
    waits = sorted(max(pod - came, 0.0) for came, pod in served)
    idle_s = sum(came - max(pod, warm_up_s) for came, pod in served if pod < came)
    idle_s += sum(max(0.0, last_s - max(pod, warm_up_s)) for pod in ready[len(arrivals) :])
    count = len(waits)
    return Outcome(
        activations=count,
        idle_s=idle_s / count,
        unused_start_s=0.0,
        cold_share=sum(wait > 0 for wait in waits) / count,
        wait_p50_s=at_share(waits, 0.5),
        wait_p99_s=at_share(waits, 0.99),
        wait_p999_s=at_share(waits, 0.999),
        wait_mean_s=sum(waits) / count,
        starts=len(ordered) / len(arrivals),
    )
