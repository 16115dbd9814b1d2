"""A good store may be a moment behind."""

from __future__ import annotations

from pathlib import Path

from checkpointer.adapters.stores.local import LocalStore
from checkpointer.loops.probe_store import probe_store
from checkpointer.testing.fault_store import FaultStore


class Lagging(FaultStore):
    """A store of which a replica hears of a removal a moment later."""

    gone: bytes = b""
    late = 2

    async def delete(self, key: str) -> None:
        """Remove, and remember for a moment."""
        self.gone = await super().get(key)
        await super().delete(key)

    async def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """Read what is there, or was a moment ago."""
        if self.gone and self.late:
            self.late -= 1
            return self.gone
        return await super().get(key, start, length)


async def test_a_replica_that_hears_of_a_removal_a_moment_later_is_no_liar(tmp_path: Path) -> None:
    """A pack's name is never used again: nobody is misled by it."""
    store = Lagging(await LocalStore.open(tmp_path, "this"))

    await probe_store(store)

    assert store.late == 0
