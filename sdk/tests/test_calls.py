"""Requests from gateway to gateway: which are tried again, which not, and what is said when none answers."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_sandbox.access import Access, ClientOptions, find_access
from agent_sandbox.orders import Order
from agent_sandbox.over_http.calls import Call, Calls
from agent_sandbox.over_http.paths import question_call
from agent_sandbox.over_http.publishing import publish_order
from agent_sandbox.over_http.transport import HttpTransport
from shared.errors import InvalidMessage, LimitExceeded, OutcomeUnknown, Rejected, Unavailable
from shared.messages import Message
from shared.testing.gateways import BREAK, HANG, OK, Gateway, problem
from shared.views import LetterAsk, LetterDropped, PoolsAnswer

NOBODY = "http://127.0.0.1:9"


@asynccontextmanager
async def calls(*gateways: Gateway | str) -> AsyncIterator[Calls]:
    """Return calls to these gateways, in this order."""
    urls = tuple(one if isinstance(one, str) else one.url for one in gateways)
    made = Calls(Access(urls, None, "token-1"))
    try:
        yield made
    finally:
        await made.close()


PUBLISH = Call(
    method="POST", path="/v1/tasks", headers={"idempotency-key": "id-1"}, body=b"{}", changes=True
)


@pytest.mark.parametrize(
    "first", [NOBODY, BREAK, problem(503, "unavailable"), problem(502, "x", definite=False)]
)
async def test_a_gateway_that_fails_costs_a_try_at_the_next(first: str | bytes) -> None:
    """Under the same id, with the same token; from then on the one that answered is asked first."""
    answer = first if isinstance(first, bytes) else OK
    async with (
        Gateway(answer).listening() as bad,
        Gateway(OK).listening() as good,
        calls(first if isinstance(first, str) else bad, good) as made,
    ):
        answers = [await made.ask(PUBLISH, within_s=5) for _ in range(2)]

    assert [answer.text for answer in answers] == ["ok", "ok"]
    assert len(good.heard) == 2
    for head in (*good.heard, *bad.heard):
        assert "idempotency-key: id-1" in head
        assert "authorization: Bearer token-1" in head


async def test_a_gateway_that_hangs_is_left_in_time() -> None:
    """Whatever it did: the next one is asked under the same id."""
    call = Call(method="POST", path="/v1/tasks", changes=True, try_s=0.2)
    async with (
        Gateway(HANG).listening() as hung,
        Gateway(OK).listening() as good,
        calls(hung, good) as made,
    ):
        assert (await made.ask(call, within_s=10)).text == "ok"

    assert len(hung.heard) == len(good.heard) == 1


async def test_what_no_gateway_took_surely_did_not_happen() -> None:
    """And what one may have taken, may have: also where the others surely did not."""
    began = time.monotonic()
    async with calls(NOBODY) as made:
        with pytest.raises(Unavailable) as refused:
            await made.ask(PUBLISH, within_s=0.5)
    async with Gateway(BREAK).listening() as broken, calls(broken, NOBODY) as made:
        with pytest.raises(OutcomeUnknown) as unknown:
            await made.ask(PUBLISH, within_s=0.5)

    assert (refused.value.definite, unknown.value.definite) == (True, False)
    assert time.monotonic() - began < 10


async def test_a_client_that_reaches_no_gateway_says_which_and_that_nothing_happened() -> None:
    """Also where something answers that is no gateway, such as a NATS server's port: it was asked for nothing yet."""
    async with Gateway(BREAK).listening() as broken:
        for url in (NOBODY, broken.url):
            with pytest.raises(Unavailable, match=rf"within 0\.5 s \({url}\): GET ") as refused:
                await HttpTransport.connect(Access((url,), None), deadline_s=0.5)
            assert refused.value.definite


async def test_a_refusal_is_not_asked_again() -> None:
    """It would be refused again; a wrong request is not sent to everybody."""
    async with (
        Gateway(problem(400, "invalid_message")).listening() as one,
        Gateway(OK).listening() as other,
        calls(one, other) as made,
    ):
        with pytest.raises(InvalidMessage):
            await made.ask(PUBLISH, within_s=5)

    assert (len(one.heard), len(other.heard)) == (1, 0)


async def test_a_refusal_after_a_try_without_answer_does_not_mean_that_it_did_not_happen() -> None:
    """The first try may have been accepted before the lane was full. A wrong request was wrong before, too."""
    full, wrong = problem(429, "limit_exceeded"), problem(400, "invalid_message")
    for answer, kind in ((full, OutcomeUnknown), (wrong, InvalidMessage)):
        async with Gateway(BREAK, answer).listening() as one, calls(one) as made:
            with pytest.raises(kind):
                await made.ask(PUBLISH, within_s=5)
    async with Gateway(BREAK, full).listening() as one, calls(one) as made:
        with pytest.raises(LimitExceeded):  # of a reading, only the answer counts
            await made.ask(Call(method="GET", path="/v1/pools"), within_s=5)


async def test_who_asks_too_fast_is_asked_again_when_the_gateway_says() -> None:
    """While there is time for it; else he is told at once."""
    busy = problem(429, "too_many_requests", more="retry-after: 1\r\n")
    async with Gateway(busy, OK).listening() as one, calls(one) as made:
        assert (await made.ask(PUBLISH, within_s=5)).text == "ok"
    async with Gateway(busy).listening() as one, calls(one) as made:
        with pytest.raises(LimitExceeded):
            await made.ask(PUBLISH, within_s=0.5)

    assert len(one.heard) == 1


async def test_a_closed_client_asks_nobody() -> None:
    """It says so, in our words."""
    async with calls(NOBODY) as made:
        await made.close()
        with pytest.raises(Unavailable, match="closed"):
            await made.ask(PUBLISH, within_s=5)


async def test_a_redirect_is_not_followed() -> None:
    """It would take the token to wherever it points."""
    there = b"HTTP/1.1 307 x\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    async with Gateway(there).listening() as one, calls(one) as made:
        with pytest.raises(Rejected):
            await made.ask(PUBLISH, within_s=5)

    assert len(one.heard) == 1


def test_a_state_folders_token_stays_on_this_machine(
    tmp_path: Path,
) -> None:
    """Unless the folder is named along with the address."""
    state = tmp_path
    (state / "token").write_text("secret\n")
    environ = {"AGENT_SANDBOX_STATE": str(state)}

    def token(**options: Any) -> str | None:
        return find_access(ClientOptions(**options), environ).token

    assert token(servers=("http://127.0.0.1:1", "http://localhost:2")) == "secret"
    assert token(servers=("https://other.example",)) is None
    assert token(servers=("http://127.0.0.1:1", "https://other.example")) is None
    assert token(servers=("http://127.0.0.1.other.example",)) is None
    assert token(servers=("https://other.example",), state=state) == "secret"
    assert token(servers=("https://other.example",), token="own") == "own"
    assert "secret" not in repr(find_access(ClientOptions(servers=("http://[::1]:1",)), environ))
    assert "own" not in repr(ClientOptions(token="own"))
    with pytest.raises(InvalidMessage, match="not both"):
        token(servers=("http://127.0.0.1:1", "nats://127.0.0.1:2"))


def said(status: str, body: str, kind: str = "application/json") -> bytes:
    """Return a whole answer."""
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    )
    return (head + body).encode()


NAMED = '{"task":"%s","session":"%s","state":"of a newer gateway"}'
ITS_ID, OTHER_ID = "3f2b8c1e-8d0f-4a52-9d55-3c1c5b1e7a10", "3f2b8c1e-8d0f-4a52-9d55-3c1c5b1e7a11"
ORDER = Order(tenant="t", session=ITS_ID, task=ITS_ID, body=b"{}", pool="p", wait_s=1.0)


@pytest.mark.parametrize(
    "answer",
    ["<html>Welcome! Please accept our terms.</html>", "", "[]", NAMED % (OTHER_ID, OTHER_ID)],
)
async def test_only_an_answer_that_names_the_task_says_that_it_is_accepted(answer: str) -> None:
    """The page of a network that wants a visitor to log in has status 200, too."""
    async with Gateway(said("200 OK", answer)).listening() as portal, calls(portal) as made:
        with pytest.raises(OutcomeUnknown, match=r"127\.0\.0\.1"):
            await publish_order(made, ORDER, time.monotonic() + 5)
    accepted = said("202 Accepted", NAMED % (ITS_ID, ITS_ID))
    async with Gateway(accepted).listening() as good, calls(good) as made:
        await publish_order(made, ORDER, time.monotonic() + 5)


PAGE = said("200 OK", "<html>Welcome! Please accept our terms.</html>", "text/html")
EMPTY = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


@pytest.mark.parametrize("stranger", [PAGE, EMPTY], ids=["a page", "nothing"])
async def test_a_stranger_who_says_200_is_no_gateway(stranger: bytes) -> None:
    """Whatever is asked, the next gateway is; where there is none, nothing was read, dropped, stored or cancelled."""
    pools = b'{"pools":[],"nodes":[],"managers":["of a gateway"]}'
    answer = said("200 OK", pools.decode())
    async with (
        Gateway(stranger).listening() as one,
        Gateway(answer).listening() as other,
        calls(one, other) as made,
    ):
        found = await HttpTransport(made).ask("pools", Message(), PoolsAnswer)
    assert found.managers == ("of a gateway",)

    async with Gateway(stranger).listening() as one, calls(one) as made:
        transport = HttpTransport(made)
        for asking in (
            transport.read_result(ITS_ID, ITS_ID, timeout_s=0.3),
            transport.cancel(ORDER, wait_s=0.3),
            made.ask(question_call("dead_letter_drop", LetterAsk(number=1)), within_s=0.3),
            transport.chunks.put("object-1", 0, b"x", within_s=0.3),
            transport.chunks.get("object-1", 0, within_s=0.3),
        ):
            with pytest.raises(OutcomeUnknown, match=r"is 127\.0\.0\.1 a gateway"):
                await asking
        with pytest.raises(OutcomeUnknown, match="a gateway"):
            async with made.stream("/v1/tasks/task-0001/output", {}, 1.0):
                pass
        with pytest.raises(Unavailable, match="a gateway"):
            await HttpTransport.connect(Access((one.url,), None), deadline_s=0.3)


async def test_only_a_removal_is_answered_without_a_body() -> None:
    """And that it was there is what it says."""
    gone = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"
    async with Gateway(gone).listening() as one, calls(one) as made:
        transport = HttpTransport(made)
        dropped = await transport.ask("dead_letter_drop", LetterAsk(number=1), LetterDropped)
        assert dropped.dropped
    async with Gateway(gone).listening() as one, calls(one) as made:
        with pytest.raises(OutcomeUnknown):
            await made.ask(Call(method="GET", path="/v1/pools"), within_s=0.3)
