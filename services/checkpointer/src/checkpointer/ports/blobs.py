"""Where packs lie, as the checkpointer asks for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from checkpointer.core.keys import StoredPack
from shared.errors import NotFound

__all__ = ["BlobStore", "PackMissing", "StoredPack"]


class PackMissing(NotFound):
    """A pack that is to be read is not in the store. Other things that are not there are plain `NotFound`."""


class BlobStore(Protocol):
    """Where packs lie: `<tenant>/<session>/<name>`, each written once and never changed.

    Every call ends: by its answer, or by an error after a time of the store's own.
    """

    @property
    def id(self) -> str:
        """Which store this is, for ever: caches of what it holds are bound to it."""
        ...

    @property
    def pack_bytes(self) -> int:
        """Size that packs should have here, bytes."""
        ...

    def new_key(self, tenant: str, session: str) -> str:
        """Return a key that nobody has used: a name of its own, and the place that is best just now.

        Each upload takes a new one, also one that is tried again.
        """
        ...

    async def put(self, key: str, data: bytes) -> None:
        """Store a pack. One try.

        Raises:
            AlreadyDone: there is one of that key; it stays as it is.
            LimitExceeded: the store is full, or the pack too large; names the limit.
            Unavailable: surely not stored.
            OutcomeUnknown: perhaps stored: put it again under a new key.
        """
        ...

    async def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """Return a pack's bytes, from `start`, at most `length` (None: to its end).

        Raises:
            NotFound: there is no such pack, or not all of it; names it.
            InvalidMessage: what the store returned is not what was asked for.
            Unavailable: it cannot be read now.
        """
        ...

    async def size(self, key: str) -> int:
        """Return a pack's size, bytes.

        Raises:
            NotFound: there is no such pack.
            Unavailable: it cannot be read now.
        """
        ...

    def list(self, prefix: str = "") -> AsyncIterator[StoredPack]:
        """Yield all packs: of a session (`<tenant>/<session>/`), of a tenant (`<tenant>/`), of all.

        Raises:
            Unavailable: the listing is not complete: nothing may be concluded from it.
        """
        ...

    async def delete(self, key: str) -> None:
        """Remove a pack; none there is no error.

        Raises:
            Unavailable: surely not removed.
            OutcomeUnknown: perhaps removed.
        """
        ...

    async def close(self) -> None:
        """Give up what the store holds open."""
        ...
