"""What happens to both sides: holders stand still for longer than anybody waits, a link is cut, a holder dies.

Nothing is staged: each fault comes a moment after user code of some task began, which is where a system spends its time.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

import store
from clients import SESSIONS, Clients

from chaos.core.check.book import ZERO
from chaos.core.history import gather
from chaos.core.rows import AnyRow, Effect, Footer, Header
from chaos.core.verdict import Verdict, judge
from labs.frame import CannotRun, Figures, Say
from labs.processes import Process
from shared.testing.relay import Link, Relay

HEAL_S = 8.0
GOES_ON = 3
"""A fault is healed once its session has gone on: the task has begun again elsewhere, so has the next, and the one after."""
MOMENT_S = 0.15
FAULTS = ("pause the holder", "pause the worker", "cut the worker off", "kill the holder")
FIRST_S, BETWEEN_S = 2.0, 2.0
EFFECT_S = 10.0
DRAIN_S = 20.0


class Side(NamedTuple):
    """What the faults hit."""

    clients: Clients
    processes: Mapping[str, Process]
    links: Mapping[str, Link]
    """Of each worker, to the queue's server."""
    relay: Relay
    holder: Callable[[store.Effect], Awaitable[str]]
    """Returns the process that holds the session of a task that has just begun."""


async def drive(side: Side, say: Say) -> Figures:
    """Let users work, break things, and judge the history."""
    await side.clients.listen()
    users = [asyncio.create_task(side.clients.use(n)) for n in range(SESSIONS)]
    await asyncio.sleep(FIRST_S)
    stalled_s = {}
    for name in FAULTS:
        stalled_s[name] = await _strike(side, name, say)
        await asyncio.sleep(BETWEEN_S)
    side.clients.is_late = True
    try:
        async with asyncio.timeout(DRAIN_S):
            await asyncio.gather(*users)
    except TimeoutError as exc:
        raise CannotRun("the users did not come to their end") from exc
    await side.clients.read_all()
    verdict = _judge(side.clients.rows)
    for one in verdict.findings:
        say(f"{one.kind}: {one.session}: {one.what[:150]}")
    for why in verdict.unknowns:
        say(f"unknown: {why}")
    say(f"{side.clients.done} tasks; verdict: {verdict.verdict}")
    found = {
        kind: verdict.counts[kind] for kind in ("lost", "dup", "fork", "stale", "order", "zombie")
    }
    wrong = sum(verdict.counts[kind] for kind in ZERO)
    return {
        "verdict": verdict.verdict,
        "verdict_is_true": int(verdict.verdict == "true"),
        "wrong": wrong,
        **found,
        "tasks_done": side.clients.done,
        "tasks_started_twice": _started_twice(side.clients.rows),
        "stood_still_after_kill_s": stalled_s["kill the holder"],
        "evidence": [f"{one.kind}: {one.session}: {one.what}" for one in verdict.findings],
    }


async def _strike(side: Side, name: str, say: Say) -> float:
    """Do a fault and heal it; return how long the session that it hit stood still, seconds."""
    effect = await side.clients.next_effect(within_s=EFFECT_S)
    await asyncio.sleep(MOMENT_S)
    if name == "cut the worker off":
        link = side.links[effect.worker]
        side.relay.do(link.there.cut)  # what it sends is under way until the link is whole again
        victim = effect.worker
    else:
        victim = effect.worker if name == "pause the worker" else await side.holder(effect)
        kill = name == "kill the holder"
        os.kill(side.processes[victim].pid, signal.SIGKILL if kill else signal.SIGSTOP)
    say(f"{name}: {victim}, in the middle of {effect.task}")
    stood_s = HEAL_S
    with suppress(TimeoutError):
        stood_s = await side.clients.wait_for_session(effect.session, GOES_ON, within_s=HEAL_S)
    if name == "cut the worker off":
        side.relay.do(side.links[victim].heal)
    elif name != "kill the holder":
        os.kill(side.processes[victim].pid, signal.SIGCONT)
    return stood_s


def _started_twice(rows: list[AnyRow]) -> int:
    starts = Counter(row.task for row in rows if isinstance(row, Effect))
    return sum(times > 1 for times in starts.values())


def _judge(rows: list[AnyRow]) -> Verdict:
    end_s = max(row.time for row in rows)
    header = Header(time=0.0, run="lab-5", seed=0, commit="", began_ms=0)
    return judge(gather([header, *rows, Footer(time=end_s)]))
