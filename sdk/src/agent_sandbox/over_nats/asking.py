"""Questions to the pool-managers, and their refusals."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from shared import messages
from shared.bus import Bus
from shared.errors import ErrorInfo, error_of

ASK_TIMEOUT_S = 5.0
LONG_S = 30.0
"""For questions that a checkpointer answers: it may read from its store."""
LONG = ("fork", "snapshot_name", "diff")
T = TypeVar("T")


class _Refusal(msgspec.Struct):
    error: ErrorInfo | None = None


async def ask(bus: Bus, subject: str, question: msgspec.Struct, kind: type[T]) -> T:
    """Ask and return the answer.

    Raises:
        Unavailable: no pool-manager is there.
        ServiceError: it refuses, with its code.
        OutcomeUnknown: no answer in time.
    """
    timeout_s = LONG_S if subject.endswith(LONG) else ASK_TIMEOUT_S
    answer = await bus.request(subject, messages.encode(question), timeout_s=timeout_s)
    if (refused := messages.decode(answer.data, _Refusal).error) is not None:
        raise error_of(refused)
    return messages.decode(answer.data, kind)
