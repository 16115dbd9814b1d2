"""What JetStream answers, read without a server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.bus import answers
from shared.bus.refusals import concerns, refused_publish, refused_subscription
from shared.bus.types import Message
from shared.errors import (
    Conflict,
    InvalidMessage,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    Rejected,
    ServiceError,
    Unavailable,
)
from shared.times import time_ms_of


def error(code: int, err_code: int, description: str = "") -> ServiceError:
    """Return our error for one of the servers'."""
    return answers.error_of(answers.ApiError(code, err_code, description), "what")


@pytest.mark.parametrize(
    ("code", "err_code", "description", "kind"),
    [
        (400, 10071, "wrong last sequence: 7", Conflict),
        (400, 10164, "wrong last sequence", Conflict),
        (404, 10059, "stream not found", NotFound),
        (404, 10014, "consumer not found", NotFound),
        (503, 10077, "maximum messages per subject exceeded", LimitExceeded),
        (503, 10077, "no space left on device", Unavailable),
        (400, 10054, "message size exceeds maximum allowed", LimitExceeded),
        (503, 10008, "JetStream system temporarily unavailable", Unavailable),
        (400, 10005, "no suitable peers for placement, peer offline", Unavailable),
        (429, 10210, "atomic publish too many inflight", Unavailable),
        (400, 10176, "atomic publish batch is incomplete", Unavailable),
        (409, 10158, "duplicate message id is in process", OutcomeUnknown),
        (500, 99999, "something new and bad", OutcomeUnknown),
        (400, 99999, "something new and wrong", Rejected),
    ],
)
def test_each_error_says_whether_it_surely_did_not_happen(
    code: int, err_code: int, description: str, kind: type[ServiceError]
) -> None:
    """The servers' codes, in our tree."""
    assert type(error(code, err_code, description)) is kind


def test_an_acknowledgement_is_read() -> None:
    """Stream, sequence, and whether it had been stored before."""
    ack = answers.read_ack(b'{"stream":"Q1","seq":7,"duplicate":true}', "what")
    assert (ack.stream, ack.seq, ack.duplicate) == ("Q1", 7, True)


@pytest.mark.parametrize("data", [b"", b"{}", b"hello", b"[1]", b'{"seq":1}'])
def test_an_answer_that_is_no_streams_proves_nothing(data: bytes) -> None:
    """Somebody else may listen on the subject."""
    with pytest.raises(OutcomeUnknown):
        answers.read_ack(data, "what")


def test_a_stored_message_is_read_with_its_headers_and_time() -> None:
    """As a leader returns it, base64 and all."""
    data = (
        b'{"message":{"subject":"s.0.a","seq":5,"time":"2026-11-29T20:55:02.069898512Z",'
        b'"data":"aGVsbG8=","hdrs":"TkFUUy8xLjANCkE6IGINCg0K"}}'
    )
    stored = answers.read_get(data, "what")
    assert stored is not None
    assert (stored.subject, stored.seq, stored.data) == ("s.0.a", 5, b"hello")
    assert stored.headers == {"A": "b"}
    assert stored.time_ms == 1795985702069


def test_no_message_is_none_and_no_stream_is_an_error() -> None:
    """Two kinds of absence."""
    assert answers.read_get(b'{"error":{"code":404,"err_code":10037}}', "what") is None
    with pytest.raises(NotFound):
        answers.read_get(b'{"error":{"code":404,"err_code":10059}}', "what")


@pytest.mark.parametrize("fraction", ["", ".1", ".12", ".123", ".123456789"])
def test_timestamps_have_any_number_of_digits(fraction: str) -> None:
    """The servers leave out trailing zeros."""
    expected = int((fraction[1:] + "000")[:3])
    assert time_ms_of(f"1970-01-01T00:00:01{fraction}Z") == 1000 + expected


@pytest.mark.parametrize(
    "reply",
    [
        "$JS.ACK.Q1.default-batch.3.1795985758551.9.1795985760189000000.4",
        "$JS.ACK.domain.hash.Q1.default-batch.3.1795985758551.9.1795985760189000000.4.random",
    ],
)
def test_a_reply_subject_tells_what_was_delivered(reply: str) -> None:
    """In the form of today, and in the one with domain and account."""
    tokens = answers.read_ack_subject(reply)
    assert (tokens.stream, tokens.consumer, tokens.deliveries) == ("Q1", "default-batch", 3)
    assert (tokens.stream_seq, tokens.time_ms) == (1795985758551, 1795985760189)


def test_another_reply_subject_is_no_delivery() -> None:
    """A header of a stranger's cannot make one."""
    assert not answers.is_delivery("_INBOX.a")
    with pytest.raises(InvalidMessage):
        answers.read_ack_subject("$JS.ACK.short")


def test_a_status_header_of_a_strangers_is_no_status() -> None:
    """Where a message was stored stands only with a message."""
    headers = {"Status": "404", "Nats-Sequence": "1", "Nats-Time-Stamp": "1970-01-01T00:00:01Z"}
    assert answers.is_status(Message("a", b"", headers)) is None
    assert answers.is_status(Message("a", b"", {"Status": "404"})) == "404"


@given(st.binary(max_size=200))
def test_any_bytes_make_headers_without_an_error(block: bytes) -> None:
    """A client may store what it likes."""
    answers.parse_headers(block)


def test_refusals_name_their_subject() -> None:
    """The servers' words, lower-cased by the library."""
    assert refused_publish('permissions violation for publish to "s.0.x"') == "s.0.x"
    assert refused_subscription('permissions violation for subscription to "rec.>"') == "rec.>"
    queued = 'permissions violation for subscription to "rec.>" using queue "q"'
    assert refused_subscription(queued) == "rec.>"
    assert refused_publish(queued) is None


@pytest.mark.parametrize(
    ("refused", "published", "expected"),
    [
        ("s.0.rec.a", "s.0.rec.A", True),
        ("q.2.t.default.batch", "task.t.default.batch", True),
        ("in.0.t.s.k", "session.t.s.k", True),
        ("$js.api.direct.get.0.s.0.done.t.s.k", "result.t.s.k", True),
        ("$js.api.direct.get.o1.object.1.t.o.4", "chunk.1.t.o.4", True),
        ("q.2.t.default.batch", "task.t.other.batch", False),
        ("q.2.t.default.batch", "x.t.default.batch", False),
    ],
)
def test_a_refusal_is_matched_to_the_publish_it_belongs_to(
    refused: str, published: str, expected: bool
) -> None:
    """Itself, or as a mapping rewrote it."""
    assert concerns(refused, published) is expected


def test_a_refused_header_concerns_the_message_that_has_it() -> None:
    """Another one under the same subject may be stored: it must not be told that it surely is not."""
    refused = "refused.nats-ttl.task.t.default.batch"
    published = "task.t.default.Batch"
    assert concerns(refused, published, {"Nats-TTL": "1s", "Nats-Msg-Id": "a"})
    assert concerns(refused, published, {"nats-ttl": "1s"})
    assert not concerns(refused, published, {"Nats-Msg-Id": "a"})
    assert not concerns(refused, published)
    assert not concerns(refused, "task.t.other.batch", {"Nats-TTL": "1s"})


def test_a_refused_wildcard_concerns_whatever_was_published_there() -> None:
    """It is the subject itself that is refused."""
    refused = "refused.wildcard.session.t.*.a"
    assert concerns(refused, "session.t.*.A")
    assert not concerns(refused, "session.t.*.b")
    assert not concerns("refused.reply.session.t.*.a", "session.t.*.a")
