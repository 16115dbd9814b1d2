"""A tenant's dead letters: look at them, replay them, drop them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack

from agent_sandbox.orders import check_options
from agent_sandbox.running import RunningTask
from shared.errors import InvalidMessage, NotFound
from shared.ids import parse_task_id
from shared.letters import NO_POOL, DeadLetter
from shared.task import decode_task
from shared.views import LetterAnswer, LetterAsk, LetterDropped, LettersAnswer, LettersAsk

if TYPE_CHECKING:
    from agent_sandbox.client import Client


class ReplayOptions(TypedDict, total=False):
    """How a dead letter is published once more."""

    pool: str
    """Pool of the new session; the letter's own where absent."""
    klass: str
    """`interactive` or `batch`; the letter's own where absent."""
    task_id: str
    """Id of the new task; made where absent."""
    new_session: bool
    """Found a new session although the letter was meant for one that existed."""


class DeadLetters:
    """Of one tenant, kept for 30 days unless newer ones need the room."""

    def __init__(self, client: Client) -> None:
        """Ask through `client`."""
        self._client = client

    async def list(self, *, limit: int = 100, before: int | None = None) -> LettersAnswer:
        """Return a page of dead letters, the newest first.

        Args:
            limit: how many at most.
            before: only letters with a lower number: `next` of the page before.

        Raises:
            ServiceError: as `Client.ask`.
        """
        ask = LettersAsk(limit=limit, before=before)
        return await self._client.ask("dead_letters", ask, LettersAnswer)

    async def show(self, number: int) -> LetterAnswer:
        """Return one dead letter with its body.

        Raises:
            NotFound: there is no such letter (any more).
            ServiceError: others as `Client.ask`.
        """
        answer = await self._client.ask("dead_letter", LetterAsk(number=number), LetterAnswer)
        if answer.row is None:
            raise NotFound(f"no dead letter {number} (any more)")
        return answer

    async def replay(self, number: int, **options: Unpack[ReplayOptions]) -> RunningTask:
        """Publish a dead letter's task again, under a new id; its result says `replay_of`. The letter stays.

        A session's first task founds a new session. A later one goes to its own session, which refuses it if it has
        ended, or founds a new one where `new_session` asks for that.

        Raises:
            NotFound: there is no such letter (any more), or no such pool.
            InvalidMessage: it still cannot be read (the field and its limit are named), or not all of it was kept.
            ServiceError: others as `Client.publish`.
        """
        check_options(options, ReplayOptions)
        answer = await self.show(number)
        assert answer.row is not None, "else it is not found"
        letter = answer.row.letter
        if letter.truncated:
            raise InvalidMessage(
                f"body: {letter.size} bytes, of which {len(answer.body)} were kept"
            )
        task = decode_task(answer.body)
        if not letter.is_first and not options.get("new_session"):
            return await self._client.publish_next(
                letter.session, task, {**options, "letter": number, **_as_header(letter)}
            )
        if letter.pool == NO_POOL and "pool" not in options:
            raise InvalidMessage("pool: the letter never had one, say which")
        where = {"pool": letter.pool, "klass": letter.klass or "interactive", **options}
        return await self._client.publish(task, {**where, "letter": number, **_as_header(letter)})

    async def drop(self, number: int) -> bool:
        """Remove a dead letter; return whether it was there.

        Raises:
            ServiceError: as `Client.ask`; dropping again does no harm.
        """
        ask = LetterAsk(number=number)
        return (await self._client.ask("dead_letter_drop", ask, LetterDropped)).dropped


def _as_header(letter: DeadLetter) -> dict[str, str]:
    """Return the option that names the replayed task; nothing where its name was what was wrong with it."""
    try:
        return {"replay_of": parse_task_id(letter.task)}
    except InvalidMessage:
        return {}
