"""How a stream's configuration differs from its declaration."""

from __future__ import annotations

from typing import Any

import pytest

from shared.bus.drift import Drift, find_drift
from shared.bus.leaders import all_led, wanted_leader
from shared.pools import PoolSpec
from shared.topology import topology


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"max_age": 0}, {}),
        ({}, {"sealed": False, "compression": "none", "consumer_limits": {}, "max_msgs": -1}),
        ({"subjects": ["a", "b"]}, {"subjects": ["b", "a"]}),
        ({"first_seq": 5}, {"first_seq": 9}),
        ({}, {"metadata": {"_nats.level": "1"}}),
        (
            {"republish": {"src": "a", "dest": "b"}},
            {"republish": {"src": "a", "dest": "b", "headers_only": False}},
        ),
    ],
)
def test_what_a_server_fills_in_is_no_drift(wanted: dict[str, Any], found: dict[str, Any]) -> None:
    """Defaults, order of subjects, its own notes."""
    assert find_drift("stream", "S", wanted, found) == []


@pytest.mark.parametrize(
    ("wanted", "found", "field"),
    [
        ({"max_age": 5}, {"max_age": 6}, "max_age"),
        ({"max_age": 5}, {}, "max_age"),
        ({}, {"allow_msg_schedules": True}, "allow_msg_schedules"),
        ({"subjects": ["a"]}, {"subjects": ["a", "b"]}, "subjects"),
        ({"republish": {"src": "a"}}, {"republish": {"src": "b"}}, "republish"),
        ({"allow_atomic": True}, {"allow_atomic": False}, "allow_atomic"),
    ],
)
def test_each_other_difference_is_named(
    wanted: dict[str, Any], found: dict[str, Any], field: str
) -> None:
    """A feature that is on without being declared, too."""
    drift = find_drift("stream", "S", wanted, found)
    assert drift == [Drift("stream", "S", field, wanted.get(field), found.get(field))]
    assert field in str(drift[0])


def replica(name: str, **state: Any) -> dict[str, Any]:
    """Return a replica's state as a server tells it."""
    return {"name": name, "current": True, **state}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"leader": "n2", "replicas": [replica("n1"), replica("n3")]}, "n1"),
        ({"leader": "n1", "replicas": [replica("n2"), replica("n3")]}, "n1"),
        ({"leader": "n2", "replicas": [replica("n1", lag=3), replica("n3")]}, None),
        ({"leader": "n2", "replicas": [replica("n1"), replica("n3", offline=True)]}, None),
        ({"replicas": [replica("n1"), replica("n2"), replica("n3")]}, None),
        ({}, None),
    ],
)
def test_a_leader_is_moved_only_to_an_up_to_date_server(
    state: dict[str, Any], expected: str | None
) -> None:
    """And only while all are there."""
    assert wanted_leader(state, 0) == expected


def test_consumers_lead_where_their_stream_does() -> None:
    """A lane needs both."""
    wanted = topology([PoolSpec(name="p")], created_ms=1)
    places = {led.path: led.server for led in all_led(wanted)}
    assert all(places[path] == places[path.split(".")[0]] for path in places)
    assert {places[name] for name in ("Q0", "Q1", "Q2")} == {0, 1, 2}
