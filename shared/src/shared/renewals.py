"""What a worker and a pool-manager say to each other when a credential is to be renewed."""

from __future__ import annotations

from shared.errors import ErrorInfo
from shared.messages import Message


class RenewAsk(Message, frozen=True, kw_only=True, omit_defaults=True):
    """A worker wants a new JWT for its key."""

    jwt: str
    """The one until now: no secret, it tells the key."""


class RenewAnswer(Message, frozen=True, kw_only=True, omit_defaults=True):
    """A pool-manager's answer."""

    jwt: str = ""
    error: ErrorInfo | None = None
    """Why there is none."""
