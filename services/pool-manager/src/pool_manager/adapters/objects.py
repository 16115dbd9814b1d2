"""The object streams."""

from __future__ import annotations

from collections import Counter

from pool_manager.core.quota import StoredObject
from shared import subjects
from shared.bus import Bus
from shared.ids import SHARDS
from shared.objects import drop_object


class StreamObjects:
    """Implements `ports.objects.Objects`."""

    def __init__(self, bus: Bus) -> None:
        """Use the service's connection."""
        self._bus = bus

    async def stored_bytes(self) -> int:
        """Return how much is stored."""
        total = 0
        for shard in range(SHARDS):
            info = await self._bus.js_api(f"STREAM.INFO.{subjects.object_stream(shard)}")
            total += int(info["state"]["bytes"])
        return total

    async def look(self) -> list[StoredObject]:
        """Return all objects."""
        chunks: Counter[tuple[str, str]] = Counter()
        shards: dict[tuple[str, str], int] = {}
        for shard in range(SHARDS):
            listed = 0
            while True:
                info = await self._bus.js_api(
                    f"STREAM.INFO.{subjects.object_stream(shard)}",
                    {"subjects_filter": ">", "offset": listed},
                )
                page = info["state"].get("subjects") or {}
                for subject in page:
                    _, _, tenant, object_id, _ = subject.split(".")
                    chunks[tenant, object_id] += 1
                    shards.setdefault((tenant, object_id), shard)
                listed += len(page)
                if not page or listed >= info.get("total", 0):
                    break
        return [StoredObject(*key, count, shards[key]) for key, count in chunks.items()]

    async def since(self, found: StoredObject) -> int:
        """Return when an object began to be stored."""
        chunks = f"object.{found.shard}.{found.tenant}.{found.object_id}.*"
        stream = subjects.object_stream(found.shard)
        async for first in self._bus.scan(stream, chunks, batch=1):
            return first.time_ms
        return 0

    async def drop(self, tenant: str, object_id: str) -> None:
        """Remove an object."""
        await drop_object(self._bus, tenant, object_id)
