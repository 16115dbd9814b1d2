"""Runs the replays of all workloads side by side, one process for each core."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from pool_manager.backtest.compare import Curve
from pool_parts import measured
from pool_parts.measured import SHARES, OfSeed, Reached

Job = tuple[str, int, str, float]
"""(workload, seed, what, promise)"""
WORK: Mapping[str, Callable[[Job], Any]] = {
    "ours": lambda job: measured.replay_ours(job[0], job[1], job[3]),
    "fixed": lambda job: measured.replay_fixed_stocks(job[0], job[1]),
    "tiers": lambda job: measured.replay_two_tiers(job[0], job[1]),
    "others": lambda job: measured.replay_others(job[0]),
    "oracles": lambda job: measured.replay_oracles(job[0]),
}


def jobs_of(workloads: Sequence[str], seeds: int) -> list[Job]:
    """Return all replays; those of one draw follow each other, so that a process makes it once."""
    found: list[Job] = []
    for name in workloads:
        for seed in range(seeds):
            found += [(name, seed, "ours", share) for share in SHARES]
            found += [(name, seed, "fixed", 0.0), (name, seed, "tiers", 0.0)]
            if seed == 0:
                found += [(name, 0, "others", 0.0), (name, 0, "oracles", 0.0)]
    return found


def work(job: Job) -> Any:
    """Do one of them, in a process of its own."""
    return WORK[job[2]](job)


async def replay_all(
    workloads: Sequence[str], seeds: int, tell: Callable[[str], None]
) -> dict[str, Reached]:
    """Replay the workloads; return what each reached.

    Args:
        workloads: names, those that take longest first.
        seeds: how often each is drawn.
        tell: told of each workload that is done.
    """
    loop, jobs = asyncio.get_running_loop(), jobs_of(workloads, seeds)
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(os.cpu_count(), mp_context=context)
    running = {job: loop.run_in_executor(pool, work, job) for job in jobs}
    try:
        found: dict[str, Reached] = {}
        for name in workloads:
            own = [job for job in jobs if job[0] == name]
            done = dict(zip(own, await asyncio.gather(*(running[job] for job in own)), strict=True))
            found[name] = _together(name, seeds, done)
            tell(f"{name}: done")
    except BaseException:  # interrupted, say: nothing goes on behind it
        for one in running.values():
            one.cancel()
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    else:
        return found
    finally:
        pool.shutdown(cancel_futures=True)


def _together(name: str, seeds: int, done: Mapping[Job, Any]) -> Reached:
    drawn = [
        OfSeed(
            ours=Curve(
                done[name, seed, "ours", SHARES[0]].policy,
                tuple(
                    point for share in SHARES for point in done[name, seed, "ours", share].points
                ),
            ),
            fixed=done[name, seed, "fixed", 0.0],
            tiers=done[name, seed, "tiers", 0.0],
        )
        for seed in range(seeds)
    ]
    beside = [*done[name, 0, "others", 0.0], *done[name, 0, "oracles", 0.0]]
    return measured.together(name, drawn, beside)
