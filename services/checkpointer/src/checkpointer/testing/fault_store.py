"""A store whose calls fail as a test says: before they are done, after, late, or from some call on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal, TypeVar

import msgspec

from checkpointer.ports.blobs import BlobStore, StoredPack
from shared.errors import OutcomeUnknown, ServiceError, Unavailable

Verb = Literal["put", "get", "size", "list", "delete"]
How = Literal["before", "after", "late", "corrupt"]
WRITES = frozenset({"put", "delete"})
T = TypeVar("T")


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to a call."""

    how: How
    """`before`: it is refused, nothing is done. `after`: it is done, its answer is lost. `late`: it is done and answered
    when the test says so (`FaultStore.let_go`). `corrupt`: a read returns one other bit."""


Plan = Callable[[int, Verb, str], Fault | None]
"""Asked with each call: its number (0, 1, …), what it is, and of which key."""


def at(number: int, how: How) -> Plan:
    """Let one call fail."""
    return lambda called, _verb, _key: Fault(how=how) if called == number else None


def every(verb: Verb, how: How) -> Plan:
    """Let all calls of a kind fail."""
    return lambda _number, called, _key: Fault(how=how) if called == verb else None


class FaultStore:
    """A `BlobStore` around another."""

    def __init__(self, store: BlobStore, plan: Plan | None = None) -> None:
        """Do as `store` does, but for what `plan` says."""
        self.calls: list[tuple[Verb, str]] = []
        """What was asked, in order."""
        self.plan = plan
        self.down = False
        """While true, every call is refused."""
        self._store = store
        self._late = asyncio.Event()

    @property
    def id(self) -> str:
        """See `BlobStore`."""
        return self._store.id

    @property
    def pack_bytes(self) -> int:
        """See `BlobStore`."""
        return self._store.pack_bytes

    def let_go(self) -> None:
        """Let what is late go on."""
        self._late.set()

    def new_key(self, tenant: str, session: str) -> str:
        """See `BlobStore`."""
        return self._store.new_key(tenant, session)

    async def put(self, key: str, data: bytes) -> None:
        """See `BlobStore`."""
        await self._call("put", key, lambda: self._store.put(key, data))

    async def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """See `BlobStore`."""
        return await self._call("get", key, lambda: self._store.get(key, start, length))

    async def size(self, key: str) -> int:
        """See `BlobStore`."""
        return await self._call("size", key, lambda: self._store.size(key))

    async def list(self, prefix: str = "") -> AsyncIterator[StoredPack]:
        """See `BlobStore`. Lost after it was done: it ends in its middle, by an error."""

        async def whole() -> list[StoredPack]:
            return [pack async for pack in self._store.list(prefix)]

        found: list[StoredPack] = []
        try:
            found = await self._call("list", prefix, whole)
        except _Half as half:
            for pack in half.packs[: len(half.packs) // 2]:
                yield pack
            raise Unavailable(f"list {prefix}: {half}") from half
        for pack in found:
            yield pack

    async def delete(self, key: str) -> None:
        """See `BlobStore`."""
        await self._call("delete", key, lambda: self._store.delete(key))

    async def close(self) -> None:
        """See `BlobStore`."""
        await self._store.close()

    async def _call(self, verb: Verb, key: str, call: Callable[[], Awaitable[T]]) -> T:
        number = len(self.calls)
        self.calls.append((verb, key))
        fault = self.plan(number, verb, key) if self.plan else None
        how = "before" if self.down else fault.how if fault else None
        if how == "before":
            raise Unavailable(f"{verb} {key}: the fault store refuses call {number}")
        if how == "late":
            await self._late.wait()
        answer = await call()
        if how == "after":
            raise self._lost(verb, number, answer)
        if how == "corrupt" and isinstance(answer, bytes) and answer:
            return bytes([answer[0] ^ 1]) + answer[1:]  # type: ignore[return-value]  # bytes as well
        return answer

    @staticmethod
    def _lost(verb: Verb, number: int, answer: object) -> ServiceError:
        text = f"the fault store lost the answer of call {number}"
        if verb == "list" and isinstance(answer, list):
            return _Half(text, answer)
        return OutcomeUnknown(text) if verb in WRITES else Unavailable(text)


class _Half(Unavailable):
    """A listing that ends in its middle."""

    def __init__(self, text: str, packs: list[StoredPack]) -> None:
        super().__init__(text)
        self.packs = packs
