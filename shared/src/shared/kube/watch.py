"""List, then watch, then list again where that is needed: one endless iterator for one collection.

The official client's own watch resumes at the same version after 410, without a pause, and reads lines of a bounded
length; so this is ours. What it yields is enough to keep a copy: all that there is, then each change.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from shared import logs
from shared.errors import ServiceError, Unavailable
from shared.kube.client import KubeApi
from shared.kube.events import Changed, Fresh, Listed, Lost, Removed, Watched
from shared.kube.refusals import Outdated, refusal

log = logs.get(__name__)

BACK_OFF_S = (0.2, 5.0)
"""First and longest wait after a list or watch that failed; halved or more at random."""
WATCH_S = 290.0
"""A watch is ended by the server after about so long."""
LATE_S = 10.0
"""So long after that it is ended here."""
LIST_S = 10.0
QUIET_S = 5.0
"""A watch that said nothing for so long may have nothing to say, or nobody at its other end: that is asked, on another
connection. The kernel of a server that hangs, or a balancer before a dead one, keeps the watch's own open."""
PROBE_S = 3.0

T = TypeVar("T")


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _RawList(msgspec.Struct):
    items: list[msgspec.Raw] | None = None
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_events = msgspec.json.Decoder(_Event)
_lists = msgspec.json.Decoder(_RawList)
_objects = msgspec.json.Decoder(_Object)


class Watch(Generic[T]):
    """One collection."""

    def __init__(
        self, api: KubeApi, path: str, kind: type[T], query: Mapping[str, str] | None = None
    ) -> None:
        """Watch the collection at `path`.

        Args:
            api: the API server.
            path: of the collection.
            kind: what its objects are read as.
            query: selectors.
        """
        self._api = api
        self._path = path
        self._decoder = msgspec.json.Decoder(kind)
        self._query = dict(query or {})
        self._version = ""
        self.listed_at = float("-inf")
        """When all was listed last, monotonic clock."""

    async def run(self) -> AsyncIterator[Watched[T]]:
        """Yield what there is and what changes, for ever. Failures are said as `Lost`, then it is tried again."""
        failures = 0
        while True:
            try:
                if not self._version:
                    yield await self._list()
                async for event in self._follow():
                    failures = 0
                    yield event
                continue
            except Outdated as exc:
                log.info("watch.outdated", path=self._path, why=str(exc))
                self._version = ""
                why = str(exc)
            except ServiceError as exc:
                log.warning("watch.lost", path=self._path, error=str(exc))
                why = str(exc)
            failures += 1
            yield Lost(why)
            await asyncio.sleep(pause_s(failures, random.random()))

    async def _list(self) -> Listed[T]:
        # From the server's cache, which may be behind what this process has seen before: only on the first list and
        # after 410, when it has seen nothing that it still knows.
        data = await self._api.get(self._path, self._query, timeout_s=LIST_S)
        listed = _read(_lists, data)
        items = [_read(self._decoder, raw) for raw in listed.items or ()]
        self._version = listed.metadata.resource_version
        self.listed_at = time.monotonic()
        return Listed(items)

    async def _follow(self) -> AsyncIterator[Watched[T]]:
        query = {
            **self._query,
            "watch": "true",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(WATCH_S * random.uniform(0.8, 1.0))),
        }
        async with self._api.lines(self._path, query, within_s=WATCH_S + LATE_S) as lines:
            yield Fresh()
            coming = asyncio.ensure_future(anext(lines, None))
            try:
                while True:
                    done, _ = await asyncio.wait((coming,), timeout=QUIET_S)
                    if not done:
                        await self._probe()
                        continue
                    if (line := coming.result()) is None:
                        return
                    coming = asyncio.ensure_future(anext(lines, None))
                    if line:
                        yield self._take(line)
            finally:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)

    async def _probe(self) -> None:
        await self._api.get(
            self._path, {**self._query, "limit": "1", "resourceVersion": "0"}, timeout_s=PROBE_S
        )

    def _take(self, line: bytes) -> Watched[T]:
        event = _read(_events, line)
        if event.type == "ERROR":
            status = _read(msgspec.json.Decoder(dict[str, Any]), event.object)
            raise refusal(int(status.get("code", 500)), bytes(event.object), writes=False)
        version = _read(_objects, event.object).metadata.resource_version
        item: Watched[T]
        match event.type:
            case "BOOKMARK":
                item = Fresh()
            case "DELETED":
                item = Removed(_read(self._decoder, event.object))
            case _:
                item = Changed(_read(self._decoder, event.object))
        self._version = version or self._version
        return item


def pause_s(failures: int, chance: float) -> float:
    """Return how long to wait after so many failures in a row.

    Args:
        failures: at least 1.
        chance: uniform in 0 to 1.
    """
    longest = min(BACK_OFF_S[0] * 2.0 ** (min(failures, 16) - 1), BACK_OFF_S[1])
    return longest * (0.5 + chance / 2)


U = TypeVar("U")


def _read(decoder: msgspec.json.Decoder[U], data: bytes | msgspec.Raw) -> U:
    try:
        return decoder.decode(data)
    except msgspec.MsgspecError as exc:
        raise Unavailable(f"the Kubernetes API says what cannot be read: {exc}") from exc
