"""Clients of tenants, where no server answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.adapters import clients as module
from gateway.adapters.clients import TenantClient
from gateway.adapters.http.answers import ProblemError, naming
from gateway.adapters.tenants import TenantAccess
from shared.errors import (
    Forbidden,
    InvalidMessage,
    NotFound,
    OutcomeUnknown,
    Rejected,
    ServiceError,
    Unavailable,
)


class Servers:
    """Stands for a client whose servers answer to no try until they are let."""

    def __init__(self) -> None:
        """Nobody has tried."""
        self.tries = 0
        self.is_tried = asyncio.Event()
        self.over = asyncio.Event()
        self.up = False

    def __call__(self, _options: Any) -> Any:
        """Return the client."""
        return self

    async def __aenter__(self) -> Any:
        """Try."""
        self.tries += 1
        self.is_tried.set()
        await self.over.wait()
        if not self.up:
            raise Unavailable("no server could be reached")
        return self


async def test_all_who_wait_for_a_tenants_client_share_one_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the last of them would wait for as many tries as there are others; the next request tries again."""
    servers: Any = Servers()
    monkeypatch.setattr(module, "Client", servers)
    lent = TenantClient("t", TenantAccess(token_sha256s=(), credential="c"), ())
    opening = [asyncio.create_task(lent.open()) for _ in range(50)]
    async with asyncio.timeout(10):
        await servers.is_tried.wait()
        servers.over.set()
        said = await asyncio.gather(*opening, return_exceptions=True)
    assert {type(one) for one in said} == {Unavailable}
    assert servers.tries == 1

    servers.up = True
    for _ in range(2):
        assert await lent.open() is servers
    assert servers.tries == 2


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (NotFound("no credential file at /etc/x"), Unavailable),
        (InvalidMessage("/etc/x is no NATS credential file"), Unavailable),
        (Forbidden("credential /etc/x: Permission denied"), Forbidden),
    ],
)
async def test_a_credential_that_can_not_be_used_is_no_fault_of_who_asks(
    error: Rejected, kind: type[ServiceError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """He is not told that what he asks for is not there, nor where the gateway's files are."""

    class Refusing(Servers):
        async def __aenter__(self) -> Any:
            raise error

    monkeypatch.setattr(module, "Client", Refusing())
    lent = TenantClient("t", TenantAccess(token_sha256s=(), credential="c"), ())
    with pytest.raises(kind) as refused:
        await lent.open()
    assert type(refused.value) is kind
    assert "/etc" not in str(refused.value)


def test_an_error_of_a_publish_names_the_task_that_may_have_been_accepted() -> None:
    """Under its id it is asked for, whatever published it."""
    with pytest.raises(ProblemError) as found, naming("task-0001"):
        raise OutcomeUnknown("no answer")
    said = found.value.problem
    assert (said.status, said.definite, said.task) == (504, False, "task-0001")
