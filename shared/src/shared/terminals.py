"""What a terminal answers to whoever sits before it."""

from __future__ import annotations

from shared.errors import ErrorInfo
from shared.messages import Message


class TerminalAnswer(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Answer to a message to a terminal."""

    next: int = 0
    """Bytes of this writer that the terminal has; what is sent next must begin here."""
    room: int = 0
    """Bytes that it would take now."""
    epoch: int = 0
    attempt: int = 0
    said: int = 0
    """Messages, events too, that this attempt has sent."""
    shown: int = 0
    """Bytes of output in them."""
    forgotten: bool = False
    """Nothing is known of this writer, and it did not begin at 0: it has to begin anew under another name."""
    error: ErrorInfo | None = None
