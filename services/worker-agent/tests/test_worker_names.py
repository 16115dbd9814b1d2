"""What a publisher says beside the body: ids and headers, each wrong one named with its limit."""

from __future__ import annotations

import pytest

from worker_agent.core import claims
from worker_agent.core.claims import Headers


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        (Headers(message_id="short"), ("Nats-Msg-Id", "8 to 64 characters")),
        (Headers(message_id="a" * 65), ("Nats-Msg-Id", "8 to 64 characters")),
        (
            Headers(message_id="task-0001", replay_of="x"),
            ("Agent-Replay-Of", "8 to 64 characters"),
        ),
        (
            Headers(message_id="task-0001", token="session-1"),
            ("Agent-Token", "not for clients"),
        ),
    ],
)
def test_a_header_that_is_wrong_is_named_with_its_limit(
    headers: Headers, said: tuple[str, ...]
) -> None:
    """The message is never run under another id than its publisher's in silence."""
    problem = claims.read_request("q.0.a.p.batch", headers, stream_seq=1, time_ms=5).problem

    assert problem is not None
    assert all(words in problem for words in said)


def test_a_message_without_an_id_is_welcome() -> None:
    """Its publisher computes the id from the PubAck."""
    assert claims.read_request("q.0.a.p.batch", Headers(), stream_seq=1, time_ms=5).problem is None


def test_a_token_has_no_body() -> None:
    """What has one is a client's task under a header of ours; it was accepted and gets its result."""
    assert claims.is_token(Headers(token="session-1"), b"")
    assert not claims.is_token(Headers(token="session-1"), b"{}")
    assert not claims.is_token(Headers(), b"")


@pytest.mark.parametrize("message_id", [None, "task-0001", "session-1:task-0001"])
def test_an_entry_is_named_by_its_subject(message_id: str | None) -> None:
    """Its message id may be absent, the task's, or the task's within its session."""
    headers = Headers(message_id=message_id)
    assert claims.entry_problem("session-1", "task-0001", headers) is None


@pytest.mark.parametrize(
    ("task", "headers", "said"),
    [
        ("x", Headers(), ("subject", "8 to 64 characters")),
        ("task-0001", Headers(message_id="task-0002"), ("Nats-Msg-Id", "task-0001")),
        (
            "task-0001",
            Headers(message_id="x:task-0001"),
            ("Nats-Msg-Id", "session-1:task-0001"),
        ),
        ("task-0001", Headers(replay_of="-"), ("Agent-Replay-Of", "8 to 64 characters")),
    ],
)
def test_an_entry_whose_names_are_wrong_is_told_which(
    task: str, headers: Headers, said: tuple[str, ...]
) -> None:
    """By field and limit."""
    problem = claims.entry_problem("session-1", task, headers)

    assert problem is not None
    assert all(words in problem for words in said)
