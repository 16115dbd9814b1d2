"""A service's probes for as long as it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

from shared.metrics.book import Book
from shared.metrics.declared import BUS_CONNECTED, BUS_CONTACT, LOOP_LATE, READY, UNREADY
from shared.probes.health import TICK_S, Health
from shared.probes.listener import Answer, Listener

CONTACT_S: Final = 3.0
"""A server that has answered nothing for so long is as good as none. Services ask twice a second, and leave a server
that owes them two answers."""

CONTACT_EVERY_S: Final = 1.0


class Contact(Protocol):
    """What a bus says of its connection."""

    @property
    def connected(self) -> bool:
        """Whether there is one."""
        ...

    def contact_age_s(self) -> float:
        """Since the newest answered question was sent."""
        ...


def nats_problem(bus: Contact, *, contact_s: float = CONTACT_S) -> Callable[[], str]:
    """Return a check of the connection: whether a server answers on it, not only whether it is open."""

    def check() -> str:
        if not bus.connected:
            return "no connection"
        age_s = bus.contact_age_s()
        return f"no answer for {age_s:.1f} s" if age_s > contact_s else ""

    return check


async def note_contact_often(book: Book, bus: Contact) -> None:
    """Write down how the connection is, once a second, until cancelled."""
    while True:
        book.set(BUS_CONNECTED, value=float(bus.connected))
        book.set(BUS_CONTACT, value=round(bus.contact_age_s(), 3))
        await asyncio.sleep(CONTACT_EVERY_S)


@asynccontextmanager
async def probed(
    health: Health, book: Book, *, address: str | None, url_file: str | None
) -> AsyncIterator[None]:
    """While inside, look after `health`, and answer probes where an address is given.

    Args:
        health: the service's.
        book: its metrics.
        address: `host:port` to listen on, port 0 for a free one; None: nobody asks.
        url_file: a file that holds the listener's URL meanwhile; None: there is none.

    Raises:
        Rejected: it can not listen there.
    """
    listener = None if address is None else _listen(health, book, address, url_file)
    ticking = asyncio.create_task(_tick(health, book), name="health")
    try:
        yield
    finally:
        ticking.cancel()
        health.leave()
        _tell_url(url_file, "")
        if listener is not None:
            listener.stop()


def _listen(health: Health, book: Book, address: str, url_file: str | None) -> Listener:
    def said(why: str, well: str) -> Answer:
        return Answer(503, f"{why}\n".encode()) if why else Answer(200, f"{well}\n".encode())

    def metrics(accept: str) -> Answer:
        body, content_type = book.render(accept)
        return Answer(200, body, content_type)

    listener = Listener(
        address,
        {
            "/livez": lambda _: said(health.live(), "live"),
            "/readyz": lambda _: said(health.ready(), f"ready\n{health.remarks()}".rstrip()),
            "/metrics": metrics,
        },
        health.look,
    )
    _tell_url(url_file, listener.start())
    return listener


def _tell_url(url_file: str | None, url: str) -> None:
    """Write where the probes are, whole or not at all; empty: they are no more."""
    if url_file is None:
        return
    path = Path(url_file)
    if not url:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(f"{url}\n")
    draft.replace(path)


async def _tick(health: Health, book: Book) -> None:
    while True:
        book.observe(LOOP_LATE, seconds=health.tick())
        problems = health.problems
        book.set(READY, value=float(not problems))
        for name in health.checks:
            book.set(UNREADY, name, value=float(name in problems))
        await asyncio.sleep(TICK_S)
