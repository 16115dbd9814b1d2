"""What results put into the metrics of a pool-manager."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from pool_manager.core.lost import Bounds
from pool_manager.core.world import World
from pool_manager.loops.measure import Measurer
from pool_manager.loops.refill import Refiller
from shared.bus import Message
from shared.metrics import DECLARED, Book
from shared.pools import PoolSpec


@pytest.fixture
def book() -> Book:
    """A pool-manager's."""
    return Book(DECLARED["pool-manager"])


def stored(book: Book, **fields: Any) -> list[str]:
    """Let a result be stored; return all lines that count results."""
    world = World("pm-1", [PoolSpec(name="p", stock=1)], Bounds(), 0.0)
    none = cast("Any", None)
    measurer = Measurer(book, world, Refiller(world, none, none, none), lambda: 0)
    data = {"task": "task-one", "session": "task-one", "status": "ok", "pool": "p", **fields}
    measurer.result(Message("done.t", msgspec.json.encode(data), {}))
    lines = book.render()[0].decode().splitlines()
    return [line for line in lines if line.startswith("agent_sandbox_results_total{")]


def test_a_result_is_counted_by_its_pool_and_status(book: Book) -> None:
    """Both are known beforehand."""
    assert stored(book) == ['agent_sandbox_results_total{pool="p",status="ok"} 1.0']


def test_words_that_nobody_declared_make_no_series(book: Book) -> None:
    """A worker writes results: what it makes up must not stay in anybody's memory."""
    stored(book, status="x" * 1000)

    assert stored(book, pool="made-up", status="made up") == [
        'agent_sandbox_results_total{pool="p",status="other"} 1.0',
        'agent_sandbox_results_total{pool="other",status="other"} 1.0',
    ]
