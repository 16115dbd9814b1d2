"""The filter alone: what passes, what is replaced, what ends the connection."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_edge.core.filter import LINE_BYTES_MAX, ClientHalf, forbidden_header
from shared.errors import InvalidMessage

MAX = 64 * 1024
FRAME = b"NATS/1.0\r\n"


def half() -> ClientHalf:
    """Return a filter."""
    return ClientHalf(MAX, "signed")


def hpub(subject: bytes, headers: bytes, body: bytes = b"{}") -> bytes:
    """Return a message with headers as it stands on the wire."""
    block = FRAME + headers + b"\r\n"
    return b"HPUB %b _INBOX.x %d %d\r\n%b%b\r\n" % (
        subject, len(block), len(block) + len(body), block, body,
    )  # fmt: skip


ORDINARY = [
    b"PING\r\n",
    b"PONG\r\n",
    b"SUB done.t.> 1\r\n",
    b"SUB done.t.> group 2\r\n",
    b"UNSUB 1\r\n",
    b"UNSUB 1 5\r\n",
    b"PUB task.t.p.batch 2\r\n{}\r\n",
    "PUB task.t.größe.batch 2\r\n{}\r\n".encode(),
    b"PUB task.t.p.batch _INBOX.x 0\r\n\r\n",
    b"PUB session.t.a*b.>c _INBOX_c-t.x 0\r\n\r\n",
    b"PUB task.t.p.batch 10\r\nHPUB a 1\r\n\r\n",
    hpub(b"cancel.t.s.a", b"Nats-Msg-Id: a\r\n"),
    hpub(b"task.t.p.batch", b"Nats-Msg-Id:  \r\nAgent-Class: batch\r\ntraceparent: 0-1\r\n"),
    hpub(b"task", b"Nats-Msg-Id: a\r\n"),
    hpub(b"task.t.p.batch", b"X: says nats-server: no harm\r\n"),
    hpub(b"task.t.p.batch", b"X: 1\r\n", b"Nats-TTL: in the body\r\n"),
]


@given(st.lists(st.sampled_from(ORDINARY), max_size=8), st.data())
def test_what_is_allowed_passes_unchanged_however_it_is_cut(
    commands: list[bytes], data: st.DataObject
) -> None:
    """A socket delivers any pieces."""
    whole = b"".join(commands)
    filtering, passed, at = half(), b"", 0
    while at < len(whole):
        size = data.draw(st.integers(1, len(whole) - at))
        passed += filtering.feed(whole[at : at + size])
        at += size
    assert passed == whole
    assert filtering.refused == 0


@pytest.mark.parametrize(
    "headers",
    [
        b"Nats-TTL: 1s\r\n",
        b"Nats-Msg-Id: a\r\nNats-Expected-Last-Msg-Id: b\r\n",
        b"nats-ttl: 1s\r\n",
        b"X: 1\r\nNATS-TTL:1s\r\n",
        b"X: 1\nNats-TTL: 1s\r\n",
        b"X: 1\rNats-TTL: 1s\r\n",
        b" Nats-TTL : 1s\r\n",
        b"Nats-Msg-Idx: 1\r\n",
        b"Nats-Msg-Id-: 1\r\n",
        b"Nats-\x00TTL: 1\r\n",
    ],
)
def test_a_forbidden_header_costs_the_whole_message(headers: bytes) -> None:
    """In its place goes one that the server refuses, with the reason in its subject; the next one passes."""
    filtering = half()
    passed = filtering.feed(hpub(b"task.t.p.batch", headers) + b"PING\r\n")

    refused, _, rest = passed.partition(b" 0\r\n\r\n")
    assert refused.startswith(b"PUB refused.nats-")
    assert refused.endswith(b".task.t.p.batch")
    assert b" " not in refused.removeprefix(b"PUB ")
    assert rest == b"PING\r\n"
    assert filtering.refused == 1


@pytest.mark.parametrize(
    ("why", "names"),
    [
        (b"wildcard", b"session.t.*.*"),
        (b"wildcard", b"session.t.%b.>" % (b"a" * 8)),
        (b"wildcard", b"session.t.*.aaaaaaaa _INBOX_c-t.x"),
        (b"reply", b"chunk.0.t.aaaaaaaa.0 done.other.aaaaaaaa.aaaaaaaa"),
        (b"reply", b"chunk.0.t.aaaaaaaa.0 shards"),
        (b"reply", b"chunk.0.t.aaaaaaaa.0 $JS.API.STREAM.LIST"),
        (b"reply", b"chunk.0.t.aaaaaaaa.0 _INBOX_c-other.*"),
        (b"reply", b"chunk.0.t.aaaaaaaa.0 _INBOX_c-other.>"),
    ],
)
@pytest.mark.parametrize(
    "form", [b"PUB %b 2\r\n{}\r\n", b"HPUB %b 12 14\r\nNATS/1.0\r\n\r\n{}\r\n"]
)
def test_a_name_that_means_others_messages_costs_the_message(
    why: bytes, names: bytes, form: bytes
) -> None:
    """What is stored under a wildcard is read as others' are; an answer goes wherever its asker says."""
    filtering = half()
    subject = names.split(b" ")[0]
    assert filtering.feed(form % names + b"PING\r\n") == (
        b"PUB refused.%b.%b 0\r\n\r\nPING\r\n" % (why, subject)
    )
    assert filtering.refused == 1


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n",
        b"PING now\r\n",
        b"PUB a\r\n",
        b"PUB a b c 1\r\nx\r\n",
        b"PUB a -1\r\n",
        b"PUB a 1x\r\n",
        b"PUB a 99999999999999999999\r\n",
        b"PUB a 1\r\nxx\r\n",
        b"PUB a 1\nHPUB b 1 1\r\n",
        b"PUB a\x0b1\r\n",
        b"PUB a.\xff\xfe 2\r\n{}\r\n",
        b"SUB a.\xc3 1\r\n",
        b"PUB a %d\r\n" % (MAX + 1),
        b"HPUB a 1\r\n",
        b"HPUB a 20 10\r\n0123456789\r\n",
        b"HPUB a 4 4\r\nabcd\r\n",
        b"HPUB a 10 10\r\nNATS/1.0\r\n\r\n",
        b"SUB a\r\n",
        b"MSG a 1 1\r\nx\r\n",
        b"CONNECT nonsense\r\n",
        b"CONNECT []\r\n",
        b"x" * (LINE_BYTES_MAX + 1),
        b"PUB " + b"x" * (2 * LINE_BYTES_MAX) + b" 1\r\n",
    ],
)
def test_what_is_no_protocol_ends_the_connection(data: bytes) -> None:
    """Nothing of it goes to the server: two readers could read it in two ways."""
    with pytest.raises(InvalidMessage):
        half().feed(data)


@given(st.binary(max_size=200))
def test_nothing_a_stranger_sends_breaks_the_filter(data: bytes) -> None:
    """It passes, or there is one kind of error."""
    try:
        half().feed(data)
    except InvalidMessage:
        return


def test_other_spellings_are_written_in_one() -> None:
    """Lower case, tabs and more blanks, as servers take them."""
    assert half().feed(b"pub\ta   2\r\n{}\r\nsub  b\t1\r\nping \r\n") == (
        b"PUB a 2\r\n{}\r\nSUB b 1\r\nPING\r\n"
    )


def test_a_connect_is_signed_by_the_edge_and_nobody_else() -> None:
    """What a client says of a signature is replaced; the rest stays."""
    passed = half().feed(b'CONNECT {"jwt":"j","sig":"s","proxy_sig":"mine","headers":true}\r\n')
    options = msgspec.json.decode(passed.removeprefix(b"CONNECT "))
    assert options == {"jwt": "j", "sig": "s", "proxy_sig": "signed", "headers": True}


def test_headers_without_a_frame_are_none() -> None:
    """A server would look into them all the same."""
    for block in (b"Nats-TTL: 1s\r\n\r\n", FRAME + b"X: 1\r\n", b""):
        with pytest.raises(InvalidMessage):
            forbidden_header(block)


@pytest.mark.parametrize(
    ("then", "passed", "own"),
    [
        (b"PING\r\nSUB a 1\r\n", b"PING\r\nSUB a 1\r\n", False),
        (b"SUB a 1\r\nPING\r\n", b"PING\r\nSUB a 1\r\nPING\r\n", True),
        (b"PONG\r\nPONG\r\n", b"PING\r\nPONG\r\nPONG\r\n", True),
    ],
)
def test_a_server_is_asked_once_whether_it_takes_the_credential(
    then: bytes, passed: bytes, own: bool
) -> None:
    """By the client's own PING where it comes next, as libraries send it; else by ours, before what comes instead."""
    filtering = half()
    assert filtering.token is None
    filtering.feed(b'CONNECT {"jwt":"j"}\r\n')
    assert filtering.token == "j"
    assert filtering.feed(then) == passed
    assert filtering.own_ping is own


@pytest.mark.parametrize(
    ("subject", "before", "after"),
    [
        (b"task.acme.p.batch", b"Nats-Msg-Id: a\r\n", b"Nats-Msg-Id: acme:a\r\n"),
        (b"session.acme.s.a", b"X: 1\r\nnats-msg-id:s:a\r\n", b"X: 1\r\nnats-msg-id:acme:s:a\r\n"),
        (b"object.2.acme.o.5", b"Nats-Msg-Id: o:5\r\n", b"Nats-Msg-Id: acme:o:5\r\n"),
        (b"task.acme.p.batch", b"Nats-Msg-Id: acme:a\r\n", b"Nats-Msg-Id: acme:acme:a\r\n"),
        (b"task.a\\1.p.batch", b"Nats-Msg-Id: a\r\n", b"Nats-Msg-Id: a\\1:a\r\n"),
        (
            b"task.acme.p.batch",
            b"Nats-Msg-Id: a\r\nNats-Msg-Id : b\r\nX: Nats-Msg-Id: c\r\n",
            b"Nats-Msg-Id: acme:a\r\nNats-Msg-Id : acme:b\r\nX: Nats-Msg-Id: c\r\n",
        ),
    ],
)
def test_what_is_stored_bears_its_tenants_name(subject: bytes, before: bytes, after: bytes) -> None:
    """So no tenant's message is taken for the second of another's; each line that could be the id, whoever reads it."""
    assert half().feed(hpub(subject, before)) == hpub(subject, after)


def test_a_message_that_its_name_makes_too_large_is_one() -> None:
    """The server would cut the connection as well; it must not learn another size than what it gets."""
    fits = hpub(b"task.acme.p.batch", b"Nats-Msg-Id: a\r\n", b"x" * (MAX - 34))
    assert half().feed(fits)
    with pytest.raises(InvalidMessage, match="bytes"):
        half().feed(fits.replace(b"acme", b"a" * 40))
