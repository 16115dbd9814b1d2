"""What a run says of its own parts that fail or hang."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chaos.adapters.observer import count_unseen
from chaos.app import beside
from shared.errors import Unavailable
from shared.testing.recorder import Recorder


class Silent:
    """Servers that never answer."""

    async def js_api(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Wait for ever."""
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_last_read_that_takes_too_long_is_an_error_that_a_round_goes_on_after() -> None:
    """`run faults` notes the fault as not known and does the next one."""
    recorder = Recorder(Silent())  # type: ignore[arg-type]  # no more of a bus is asked

    with pytest.raises(Unavailable, match=r"not be read within 0\.05 s"):
        await count_unseen(recorder, 0.05)


async def test_a_job_beside_the_load_that_fails_is_told_of_when_the_run_is_over() -> None:
    """It does not break the run off; one that is only ended is nothing to tell of."""
    said: list[str] = []
    failed = asyncio.Event()

    async def fails() -> None:
        failed.set()
        raise OSError("no screen")

    async def lasts() -> None:
        await asyncio.Event().wait()

    async with beside(said.append, fails(), lasts()):
        await failed.wait()

    assert said == ["what ran beside the load failed: OSError('no screen')"]
