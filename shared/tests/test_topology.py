"""Streams, consumers and mappings as data: where each subject ends up, by the servers' own rules."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shared import limits, mappings, subjects
from shared.classes import CLASSES, CLIENT_CLASSES
from shared.files import Stream
from shared.ids import SHARDS, home
from shared.messages import TaskResult, encode
from shared.pools import PoolSpec
from shared.topology import topology

POOLS = (PoolSpec(name="default"), PoolSpec(name="a-batch"), PoolSpec(name="a"))
TOPOLOGY = topology(POOLS, created_ms=1_764_450_000_000)
STREAMS = {stream.name: stream for stream in TOPOLOGY.streams}
REACHED_BY_CLIENTS = [f"{kind}{shard}" for kind in "IQO" for shard in range(SHARDS)]

ids = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{7,63}", fullmatch=True)


def matches(pattern: str, subject: str) -> bool:
    """Return whether a subject matches a pattern with wildcards."""
    wanted, tokens = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted, tokens = wanted[:-1], tokens[: len(wanted) - 1]
        if len(subject.split(".")) <= len(wanted):
            return False
    pairs = zip(wanted, tokens, strict=False)
    return len(wanted) == len(tokens) and all(want in ("*", token) for want, token in pairs)


def overlap(one: str, other: str) -> bool:
    """Return whether some subject matches both patterns."""
    for mine, theirs in zip(one.split("."), other.split("."), strict=False):
        if ">" in (mine, theirs):
            return True
        if "*" not in (mine, theirs) and mine != theirs:
            return False
    return one.count(".") == other.count(".")


def transformed(source: str, destination: str, subject: str) -> str:
    """Return where the servers send a subject: wildcards by number, `partition` by the hash of whole tokens."""
    pattern, tokens = source.split("."), subject.split(".")
    stars = [token for want, token in zip(pattern, tokens, strict=False) if want == "*"]
    rest = ".".join(tokens[len(pattern) - 1 :])

    def replaced(function: re.Match[str]) -> str:
        name, arguments = function[1], [int(number) for number in function[2].split(",")]
        if name == "wildcard":
            return stars[arguments[0] - 1]
        assert name == "partition"
        assert arguments[0] == SHARDS
        return str(home("".join(stars[number - 1] for number in arguments[1:])))

    moved = re.sub(r"\{\{(\w+)\(([\d,]+)\)\}\}", replaced, destination)
    return moved.removesuffix(">") + rest if destination.endswith(">") else moved


def mapped(subject: str) -> list[str]:
    """Return all places to which the account's mappings may send a client's subject."""
    return [
        transformed(source, destination["subject"], subject)
        for source, destinations in mappings.account_mappings().items()
        if matches(source, subject)
        for destination in destinations
    ]


def holders(subject: str) -> list[str]:
    """Return the streams that listen to a subject."""
    return [
        stream.name
        for stream in TOPOLOGY.streams
        if any(matches(pattern, subject) for pattern in stream.config["subjects"])
    ]


# --- mappings --------------------------------------------------------------------------------------------------------
def test_a_new_task_is_spread_over_all_queue_shards() -> None:
    """One destination for each shard, each a lane that exists, with weights that make up the whole."""
    for klass in CLIENT_CLASSES:
        lanes = mapped(subjects.task("acme", "default", klass))
        assert lanes == [subjects.queue(shard, "acme", "default", klass) for shard in range(SHARDS)]
        assert [holders(lane) for lane in lanes] == [["Q0"], ["Q1"], ["Q2"]]
    for destinations in mappings.account_mappings().values():
        assert sum(destination["weight"] for destination in destinations) == 100


def test_no_client_reaches_the_recovery_lane() -> None:
    """Its messages would overtake those of sessions that lost their worker."""
    assert mapped(subjects.task("acme", "default", "recovery")) == []
    for source, destinations in mappings.account_mappings().items():
        for destination in destinations:
            assert "recovery" not in destination["subject"]
            if source.startswith("task."):
                assert destination["subject"].rpartition(".")[2] in CLIENT_CLASSES
                assert destination["subject"].rpartition(".")[2] == source.rpartition(".")[2]


def test_a_task_for_an_unknown_pool_reaches_no_stream() -> None:
    """Its publish is refused for certain: nobody listens."""
    for lane in mapped(subjects.task("acme", "no-such-pool", "batch")):
        assert holders(lane) == []


@given(ids, ids)
def test_a_session_s_next_task_goes_to_its_inbox(session: str, task: str) -> None:
    """By the servers' `partition`, which is our `home`."""
    (place,) = mapped(subjects.session_task("acme", session, task))

    assert place == subjects.inbox("acme", session, task)
    assert holders(place) == [subjects.inbox_stream(home(session))]


@given(ids, ids)
def test_a_result_is_read_directly_from_its_stream(session: str, task: str) -> None:
    """The stream's name is what `partition` yields, so that the mapping can name it."""
    (place,) = mapped(subjects.result("acme", session, task))
    prefix, _, stored = place.removeprefix("$JS.API.DIRECT.GET.").partition(".")

    assert place.startswith("$JS.API.DIRECT.GET.")
    assert stored == subjects.stored_result("acme", session, task)
    assert holders(stored) == [prefix] == [subjects.state_stream(home(session))]
    assert STREAMS[prefix].config["allow_direct"] is True


@given(ids, st.integers(0, limits.OBJECT_CHUNKS_MAX))
def test_a_chunk_is_read_from_where_it_is_stored(object_id: str, number: int) -> None:
    """Its writer's subject needs no mapping, its reader's leads to the same stream; neighbours share no leader."""
    stored = subjects.object_chunk("acme", object_id, number)
    (place,) = mapped(subjects.read_chunk("acme", object_id, number))
    (stream,) = holders(stored)

    assert place == f"$JS.API.DIRECT.GET.{stream}.{stored}"
    assert holders(subjects.object_chunk("acme", object_id, number + 1)) != [stream]


# --- streams ---------------------------------------------------------------------------------------------------------
def test_state_streams_have_the_names_that_partition_yields() -> None:
    """0, 1 and 2."""
    assert {subjects.state_stream(shard) for shard in range(SHARDS)} == {"0", "1", "2"}
    assert {"0", "1", "2"} <= set(STREAMS)


@pytest.mark.parametrize("name", STREAMS)
def test_no_stream_allows_schedules_or_lifetimes(name: str) -> None:
    """A message's own schedule or TTL would act behind the record's back; a schedule's target escapes the pool."""
    config = STREAMS[name].config
    forbidden = [
        "allow_msg_schedules",
        "allow_msg_ttl",
        "subject_delete_marker_ttl",
        "allow_msg_counter",
    ]

    assert [word for word in forbidden if config.get(word)] == []


@pytest.mark.parametrize("name", REACHED_BY_CLIENTS)
def test_clients_reach_no_stream_that_takes_batches(name: str) -> None:
    """Only truth is changed in batches, and no client writes there."""
    assert "allow_atomic" not in STREAMS[name].config
    assert "allow_rollup_hdrs" not in STREAMS[name].config


def test_every_stream_is_on_three_servers_and_on_disk() -> None:
    """What was acknowledged survives the loss of any one server, or of all at once. Output may be lost then."""
    for stream in TOPOLOGY.streams:
        assert stream.config["num_replicas"] == 3
        assert stream.config["storage"] == "file" or stream.name == subjects.OUTPUT_STREAM
    assert [
        STREAMS[f"{kind}{shard}"].leader for kind in ("", "I", "Q", "O") for shard in range(3)
    ] == [
        *(0, 1, 2),
        *(0, 1, 2),
        *(0, 1, 2),
        *(0, 1, 2),
    ]


def test_no_subject_belongs_to_two_streams() -> None:
    """The servers would refuse the second one."""
    patterns = [
        (stream.name, pattern)
        for stream in TOPOLOGY.streams
        for pattern in stream.config["subjects"]
    ]
    shared_by = [
        (one, other)
        for at, one in enumerate(patterns)
        for other in patterns[at + 1 :]
        if overlap(one[1], other[1])
    ]

    assert shared_by == []


@pytest.mark.parametrize("shard", range(SHARDS))
def test_truth_holds_one_value_per_subject_for_ever(shard: int) -> None:
    """Changed by compare-and-set and batches, never by age or size."""
    config = STREAMS[subjects.state_stream(shard)].config

    assert config["max_msgs_per_subject"] == 1
    assert config["allow_atomic"] is True
    assert (config["max_age"], config["max_bytes"], config["max_msgs"]) == (0, -1, -1)


def test_the_largest_result_fits_into_its_stream() -> None:
    """A result that cannot be stored would leave its task without an end. Control characters take six bytes each."""
    worst = Stream(text="\0" * limits.RESULT_OUTPUT_BYTES_MAX, size=1 << 40, truncated=True)
    bare = TaskResult(task="t" * 64, session="s" * 64, tenant="a" * 32, status="failed")
    output = replace(bare, reason="exit_code", stdout=worst, stderr=worst)
    read = replace(bare, status="ok", data=bytes(limits.READ_BYTES_MAX))
    headers_bytes = 512

    for result in (output, read):
        needed = len(encode(result)) + headers_bytes
        assert needed <= STREAMS["0"].config["max_msg_size"]


@pytest.mark.parametrize("name", REACHED_BY_CLIENTS)
def test_a_body_at_its_limit_is_taken_with_its_headers(name: str) -> None:
    """The servers count headers with the body."""
    assert STREAMS[name].config["max_msg_size"] > limits.BODY_BYTES_MAX


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_full_lane_refuses_instead_of_dropping(shard: int) -> None:
    """What was accepted is never pushed out by what comes later."""
    for name in (subjects.queue_stream(shard), subjects.inbox_stream(shard)):
        config = STREAMS[name].config
        assert config["discard"] == "new"
        assert config["discard_new_per_subject"] is True
    assert STREAMS[f"Q{shard}"].config["max_msgs_per_subject"] == limits.LANE_MESSAGES_MAX
    assert STREAMS[f"Q{shard}"].config["first_seq"] == 1_764_450_000_000
    assert STREAMS[f"I{shard}"].config["max_msgs_per_subject"] == 1


# --- what is heard when something is stored ----------------------------------------------------------------------------
REPUBLISHED: list[tuple[str, str, str, bool]] = [
    ("0", "s.0.rec.p.acme.session-1", "rec.p.acme.session-1", False),
    ("1", "s.1.done.acme.session-1.task-0001", "done.acme.session-1.task-0001", False),
    ("I2", "in.2.acme.session-1.task-0001", "wake.acme.session-1", True),
    ("Q1", "q.1.acme.p.batch", "bell.p.batch.1", True),
    ("P1", "slot.1.p.7", "slots.p.7", False),
]


@pytest.mark.parametrize(("name", "stored", "heard", "headers_only"), REPUBLISHED)
def test_what_is_stored_is_heard(name: str, stored: str, heard: str, headers_only: bool) -> None:
    """At the moment it is stored; where nobody needs the body, without it."""
    rule: dict[str, Any] = STREAMS[name].config["republish"]

    assert matches(rule["src"], stored)
    assert transformed(rule["src"], rule["dest"], stored) == heard
    assert rule.get("headers_only", False) is headers_only


def test_what_is_heard_is_stored_nowhere_again() -> None:
    """A republished subject that a stream listened to would go round and round."""
    for _, _, heard, _ in REPUBLISHED:
        assert holders(heard) == []


# --- consumers ---------------------------------------------------------------------------------------------------------
def test_each_lane_has_one_consumer_on_each_shard() -> None:
    """And none more: nothing per session, worker or pod."""
    found = {(consumer.stream, consumer.name) for consumer in TOPOLOGY.consumers}
    wanted = {
        (f"Q{shard}", f"{pool.name}-{klass}")
        for shard in range(SHARDS)
        for pool in POOLS
        for klass in CLASSES
    }

    assert found == wanted
    assert len(TOPOLOGY.consumers) == len(wanted) == 27


def test_a_consumer_delivers_its_lane_until_it_is_acked() -> None:
    """Of all tenants; deliveries are no deaths, so there is no last one."""
    for consumer in TOPOLOGY.consumers:
        config = consumer.config
        lane = config["filter_subject"]
        pool, _, klass = consumer.name.rpartition("-")
        assert lane == subjects.queue(int(consumer.stream[1]), "*", pool, klass)
        assert lane in STREAMS[consumer.stream].config["subjects"]
        assert config["ack_policy"] == "explicit"
        assert config["ack_wait"] == 2_000_000_000
        assert config["max_deliver"] == -1
        assert config["max_ack_pending"] == config["max_waiting"] == 16_384
