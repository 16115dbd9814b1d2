"""What clients can ask, on real servers."""

from __future__ import annotations

from typing import Any

import pytest

from shared import messages, subjects
from shared.bus import Bus
from shared.messages import Message
from shared.testing.look import Look, until
from shared.testing.names import unique
from shared.views import ListAsk, PoolsAnswer, SessionAnswer, SessionsAnswer, ShowAsk


async def ask(bus: Bus, what: str, body: Message | None = None, tenant: str = "acme") -> bytes:
    """Ask as a client does."""
    data = b"" if body is None else messages.encode(body)
    return (await bus.request(subjects.ask(tenant, what), data, timeout_s=3.0)).data


@pytest.fixture
async def pools(start: Any) -> None:
    """One pool-manager, two pools, one of which no node can serve."""
    await start(
        "pm-1",
        pools=[
            {"name": "default", "stock": 2, "isolation": "auto"},
            {"name": "other", "stock": 1, "isolation": "gvisor"},
        ],
    )


async def test_pools_tell_their_stock_and_what_stands_in_the_way(
    pools: None, node: Any, look: Look
) -> None:
    """Stock, class and reason."""
    worker = (await node.warm(2))[0]
    await worker.create(unique("session"))

    async def is_settled() -> PoolsAnswer | None:
        answer = messages.decode(await ask(look.bus, "pools"), PoolsAnswer)
        view = answer.pools[0]
        counts = (view.warm, view.bound, view.starting, answer.nodes[0].pods)
        return answer if counts == (2, 1, 0, 3) else None

    answer: PoolsAnswer = await until(is_settled)
    default, other = answer.pools
    assert default.classes == {"namespace": 3}
    assert default.reason == ""
    assert "gvisor" in other.reason
    assert "runsc is not installed" in other.reason
    assert [(n.node, n.alive, n.pods) for n in answer.nodes] == [("node-a", True, 3)]
    assert answer.managers == ("pm-1",)


async def test_one_session_is_shown_whole(pools: None, node: Any, look: Look) -> None:
    """The record, and what its worker's heartbeat says."""
    session = unique("session")
    worker = (await node.warm(2))[0]
    await worker.create(session)

    async def is_named() -> SessionAnswer | None:
        body = await ask(look.bus, "session", ShowAsk(session=session))
        answer = messages.decode(body, SessionAnswer)
        return answer if answer.task else None

    answer: SessionAnswer = await until(is_named)
    assert answer.record == await look.record(session)
    assert (answer.isolation, answer.worker_state, answer.task) == ("namespace", "running", session)


async def test_sessions_are_listed_page_by_page(pools: None, node: Any, look: Look) -> None:
    """In the order of their ids, one tenant's alone."""
    workers = await node.warm(2)
    sessions = sorted(unique("session") for _ in workers)
    for worker, session in zip(workers, sessions, strict=True):
        await worker.create(session)

    async def page(after: str | None = None) -> SessionsAnswer:
        body = await ask(look.bus, "sessions", ListAsk(limit=1, after=after))
        return messages.decode(body, SessionsAnswer)

    async def is_there() -> bool:
        return (await page(sessions[0])).sessions != ()

    await until(is_there)
    first = await page()
    second = await page(first.next)
    assert [row.session for row in (*first.sessions, *second.sessions)] == sessions
    assert (first.next, second.next) == (sessions[0], None)
    other = messages.decode(await ask(look.bus, "sessions", tenant="else"), SessionsAnswer)
    assert other.sessions == ()


@pytest.mark.parametrize(
    ("what", "body", "code"),
    [
        ("weather", b"", "not_found"),
        ("sessions", b'{"limit": 0}', "invalid_message"),
        ("session", b"{", "invalid_message"),
        ("object_drop", b'{"objects": ["object-1.*"]}', "invalid_message"),
    ],
)
async def test_a_bad_question_is_answered_by_an_error(
    pools: None, look: Look, what: str, body: bytes, code: str
) -> None:
    """Never by silence."""
    reply = await look.bus.request(subjects.ask("acme", what), body, timeout_s=3.0)

    error = messages.decode(reply.data, SessionsAnswer).error
    assert error is not None
    assert error.code == code
