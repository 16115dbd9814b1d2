"""Sessions that are there."""

from __future__ import annotations

from agent_sandbox import Client
from gateway.adapters.http.answers import ProblemError
from gateway.core.problems import problem
from shared.errors import NotFound
from shared.record import ENDED
from shared.views import SessionAnswer, ShowAsk


async def known_session(client: Client, session: str) -> SessionAnswer:
    """Return a session, as the leader has it.

    Raises:
        NotFound: there is none (yet: its first task may wait for its first worker).
        ServiceError: others as `Client.ask`.
    """
    answer = await client.ask("session", ShowAsk(session=session), SessionAnswer)
    if answer.record is None:
        raise NotFound(f"session {session} is not known (yet)")
    return answer


async def open_session(client: Client, session: str) -> SessionAnswer:
    """Return a session that takes tasks.

    Raises:
        NotFound: there is none (yet).
        ProblemError: it has ended.
        ServiceError: others as `Client.ask`.
    """
    answer = await known_session(client, session)
    assert answer.record is not None, "else it is not known"
    if answer.record.state in ENDED:
        why = answer.record.end_reason or answer.record.state
        said = f"session {session} has ended ({answer.record.state}: {why})"
        raise ProblemError(problem(409, "session_ended", said))
    return answer
