"""Who stands behind a connection."""

from __future__ import annotations

from typing import Protocol


class Owner(Protocol):
    """Who is told what happens on the connection. Called in the reader: must be short and must not raise."""

    def on_lost(self) -> None:
        """The connection is given up; a new one is being made."""

    async def on_restored(self) -> None:
        """There is a connection again, and all subscriptions are back."""

    def on_refused(self, text: str) -> None:
        """The server refused a publish or a subscription; its words, in lower case."""
