"""Whose a connection is, how its beginning is read, and what each tenant may have of an edge: the cores alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_edge.adapters.tenants import tenant_of
from client_edge.core.greeting import HEAD_BYTES_MAX, Greeting
from client_edge.core.shares import Shares
from shared.errors import InvalidMessage
from shared.identity import make_identity, roles

INFO = b'INFO {"max_payload":1}\r\n'


@given(
    st.lists(
        st.sampled_from([b"+OK\r\n", b"PING\r\n", b"INFO {}\r\n", b"-ERR 'x'\r\n"]), max_size=3
    ),
    st.sampled_from([b"", b"PONG\r\n", b"MSG a 1 4\r\nPONG\r\n"]),
    st.booleans(),
    st.data(),
)
def test_a_greeting_loses_the_answer_to_an_own_ping_and_nothing_else_however_it_is_cut(
    before: list[bytes], after: bytes, own_ping: bool, data: st.DataObject
) -> None:
    """What answers the edge's PING is not the client's; all before and behind it is."""
    whole = INFO + b"".join(before) + b"PONG\r\n" + after
    greeting, passed, at, known_at = Greeting(), b"", 0, 0
    while at < len(whole):
        size = data.draw(st.integers(1, len(whole) - at))
        piece = whole[at : at + size]
        passed += piece if greeting.known else greeting.feed(piece, own_ping=own_ping)
        at += size
        known_at = known_at or (at if greeting.known else 0)

    pong = b"" if own_ping else b"PONG\r\n"
    assert passed == INFO + b"".join(before) + pong + after
    assert greeting.info == INFO.strip()
    assert known_at >= len(INFO + b"".join(before) + b"PONG\r\n")


def test_a_greeting_without_an_end_is_none() -> None:
    """A stranger on the server's port fills no memory."""
    with pytest.raises(InvalidMessage):
        Greeting().feed(b"x" * (HEAD_BYTES_MAX + 1), own_ping=False)


def test_a_credential_tells_its_tenant_and_anything_else_no_other() -> None:
    """One of a service, which no edge serves, counts by its own key; nonsense is nobody's."""
    identity = make_identity()
    minted = identity.client_signer.mint("c", roles.publisher("acme", ("p",)), by_edge=True)
    service = identity.signer.mint("pm", roles.local_node("n"))

    assert tenant_of(minted.jwt) == "acme"
    assert tenant_of(service.jwt).startswith("U")
    for nonsense in ("", "a.b.c", "a", minted.jwt[:40]):
        assert tenant_of(nonsense) == ""


def test_a_tenant_has_its_share_and_leaves_nothing_behind() -> None:
    """Another one's is not touched by it."""
    shares = Shares(connections_max=2, half_sent_bytes_max=10)

    assert [shares.enter("a") for _ in range(3)] == [True, True, False]
    assert shares.enter("b")
    assert shares.hold("a", 10)
    assert not shares.hold("a", 1)
    assert shares.hold("b", 10)
    assert shares.hold("a", -1)
    for tenant, count in (("a", 2), ("b", 1)):
        for _ in range(count):
            shares.leave(tenant)
        shares.hold(tenant, -10)
    assert not shares._connections
    assert not shares._held
