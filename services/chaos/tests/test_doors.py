"""What a user is told when nobody can say what became of a task that was accepted."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.adapters.doors import SdkDoor
from chaos.ports.door import Ask, Hears, Told
from shared.errors import Rejected, Unavailable

ASK = Ask(session="s", task="t", code="")


class Waiting:
    """A task that was accepted, and of which nothing is heard but an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.watch = None

    def ignore_events(self) -> None:
        """Nothing comes."""

    def events(self) -> Any:
        """Fail."""
        raise self._error

    async def result(self, **_: Any) -> Any:
        """Fail."""
        raise self._error

    async def forget(self) -> None:
        """Nothing to forget."""


class Publishing:
    """A client whose publish is acknowledged, or refused."""

    def __init__(self, error: Exception, *, accepts: bool = True) -> None:
        self._error, self._accepts = error, accepts

    async def publish_next(self, *_: Any) -> Waiting:
        """Accept, or refuse."""
        if not self._accepts:
            raise self._error
        return Waiting(self._error)


async def told(error: Exception, *, accepts: bool, reads: bool) -> Told:
    """Return what a user is told."""
    door = SdkDoor(Publishing(error, accepts=accepts), "http")  # type: ignore[arg-type]  # no more of a client is asked
    if reads:
        return await door.read("s", "t", "journal")
    nothing = lambda: None  # noqa: E731 - heard by nobody
    return await door.ask(ASK, Hears(accepted=nothing, cut=nothing, attached=nothing, gap=nothing))


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("error", [Rejected("gone"), Unavailable("not now"), TimeoutError()])
async def test_an_error_after_the_acceptance_says_nothing_of_the_task(
    error: Exception, reads: bool
) -> None:
    """However definite it is: the task may be done, now or later."""
    said = await told(error, accepts=True, reads=reads)

    assert not said.did_nothing
    assert not said.is_definite
    assert said.error


@pytest.mark.parametrize("reads", [False, True])
async def test_a_refused_publish_did_nothing(reads: bool) -> None:
    """It was never accepted."""
    said = await told(Rejected("no such pool"), accepts=False, reads=reads)

    assert said.did_nothing
