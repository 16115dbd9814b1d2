"""The network of tests: what it holds back waits, whole and in order, and each way is for itself."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from shared.cluster.ports import LOOPBACK
from shared.testing.relay import Link, Relay

ANSWER_S = 5.0
SILENCE_S = 0.3


class Echo:
    """A server that says back what it hears, and remembers it."""

    def __init__(self) -> None:
        """Listen."""
        self.heard = b""
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            while data := connection.recv(65536):
                self.heard += data
                connection.sendall(data)

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()


@pytest.fixture
def relay() -> Iterator[Relay]:
    """A relay without links."""
    made = Relay()
    yield made
    made.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    """A server."""
    made = Echo()
    yield made
    made.close()


@pytest.fixture
def link(relay: Relay, echo: Echo) -> Link:
    """A link to the server."""
    return relay.link(echo.port)


@pytest.fixture
def dialler(link: Link) -> Iterator[socket.socket]:
    """A connection over the link, over which something has come back."""
    with socket.create_connection((LOOPBACK, link.port), timeout=ANSWER_S) as made:
        made.sendall(b"hello ")
        assert receive(made, 6) == b"hello "
        yield made


def receive(connection: socket.socket, size: int) -> bytes:
    """Return the next bytes, exactly so many."""
    data = b""
    while len(data) < size and (more := connection.recv(size - len(data))):
        data += more
    return data


def hears_nothing(connection: socket.socket) -> bool:
    """Return whether nothing comes for a while."""
    connection.settimeout(SILENCE_S)
    try:
        return connection.recv(1) == b"never"
    except TimeoutError:
        return True
    finally:
        connection.settimeout(ANSWER_S)


def test_what_a_cut_way_withholds_comes_when_it_is_healed(
    relay: Relay, link: Link, echo: Echo, dialler: socket.socket
) -> None:
    """The server hears nothing while the way there is cut, and then all of it, in order."""
    relay.do(link.there.cut)
    for word in (b"one ", b"two ", b"three"):
        dialler.sendall(word)
    assert hears_nothing(dialler)
    assert echo.heard == b"hello "
    assert link.there.withheld >= 1

    relay.do(link.there.heal)

    assert receive(dialler, 13) == b"one two three"


def test_the_other_way_stays_open(
    relay: Relay, link: Link, echo: Echo, dialler: socket.socket
) -> None:
    """With the way back cut, the server hears what the dialler says; only its answer waits."""
    relay.do(link.back.cut)
    dialler.sendall(b"heard")
    assert hears_nothing(dialler)
    assert echo.heard == b"hello heard"
    assert not link.there.withheld

    relay.do(link.back.heal)

    assert receive(dialler, 5) == b"heard"


def test_an_end_is_not_told_over_a_cut_link(
    relay: Relay, link: Link, echo: Echo, dialler: socket.socket
) -> None:
    """A program that dies behind a cut link leaves its peer in the belief that it is there."""
    relay.do(link.cut)
    dialler.close()

    with socket.create_connection((LOOPBACK, link.port), timeout=ANSWER_S) as second:
        assert hears_nothing(second)

    deadline = time.monotonic() + ANSWER_S
    while not link.there.withheld and time.monotonic() < deadline:
        time.sleep(0.01)
    assert link.there.withheld
    assert echo.heard == b"hello "


def test_a_shape_delays_and_keeps_the_order(
    relay: Relay, link: Link, dialler: socket.socket
) -> None:
    """A chunk that is under way longer than the next one still comes first, and none comes before its time."""
    times = iter([0.4, 0.0, 0.0])
    relay.do(lambda: link.there.shape(lambda: next(times, 0.0)))
    began = time.monotonic()
    dialler.sendall(b"slow ")
    deadline = time.monotonic() + ANSWER_S
    while not link.there.delayed and time.monotonic() < deadline:
        time.sleep(0.01)
    dialler.sendall(b"quick")

    assert receive(dialler, 10) == b"slow quick"
    assert time.monotonic() - began >= 0.4
    assert link.there.delayed >= 1
