"""When credentials are renewed, without servers."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest

from shared.bus import renewal
from shared.identity import Credential, make_identity

LIFE_S = 3600.0


@pytest.mark.parametrize("ahead_s", [2 * LIFE_S, 0.0, -2 * LIFE_S])
async def test_a_wrong_clock_makes_nobody_renew_without_end(
    ahead_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ahead of the servers' by more than a life, each new credential seems to have ended; behind, none ever does."""
    monkeypatch.setattr(renewal, "time", SimpleNamespace(time=lambda: time.time() + ahead_s))
    waits: list[float] = []

    async def sleep(wait_s: float) -> None:
        waits.append(wait_s)
        if len(waits) == 3:
            raise asyncio.CancelledError

    monkeypatch.setattr(renewal, "asyncio", SimpleNamespace(
        sleep=sleep, get_running_loop=asyncio.get_running_loop
    ))  # fmt: skip
    signer = make_identity().worker_signer

    async def fetch() -> Credential:
        return signer.mint("default", "w1", valid_s=LIFE_S)

    async def show(_credential: Credential) -> None:
        return

    with pytest.raises(asyncio.CancelledError):
        await renewal.keep_renewed(await fetch(), fetch, show)

    early_s, late_s = LIFE_S * renewal.RENEW_FROM - 5, LIFE_S * renewal.RENEW_TO
    assert all(early_s < wait_s <= late_s for wait_s in waits), waits
