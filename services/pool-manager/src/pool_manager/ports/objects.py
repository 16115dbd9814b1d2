"""The object store as a pool-manager sees it: how much each tenant has there, and how to remove it."""

from __future__ import annotations

from typing import Protocol

from pool_manager.core.quota import StoredObject


class Objects(Protocol):
    """Objects of all tenants. All raise ServiceError where the streams do not answer."""

    async def stored_bytes(self) -> int:
        """Return how much is stored, of all tenants together, chunks with their headers."""
        ...

    async def look(self) -> list[StoredObject]:
        """Return all objects, those that are only half there too."""
        ...

    async def since(self, found: StoredObject) -> int:
        """Return when an object began to be stored, the stream's clock, milliseconds since 1970; 0: it is gone."""
        ...

    async def drop(self, tenant: str, object_id: str) -> None:
        """Remove an object; one that is gone already is no error."""
        ...
