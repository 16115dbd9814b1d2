"""Watches of a Kubernetes API that are ended, outdated, broken, or say what cannot be read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from shared.kube.client import KubeApi
from shared.kube.events import Changed, Fresh, Listed, Lost, Removed
from shared.kube.views import PodView
from shared.kube.watch import BACK_OFF_S, Watch, pause_s
from shared.testing.api_server import ApiServer

PODS = "/api/v1/namespaces/pods/pods"


def pod(name: str, version: int) -> dict[str, Any]:
    """Return a pod's object."""
    return {"metadata": {"name": name, "uid": name, "resourceVersion": str(version)}}


def listed(version: int, *names: str) -> tuple[int, dict[str, Any]]:
    """Return a list."""
    items = [pod(name, version) for name in names]
    return 200, {"items": items, "metadata": {"resourceVersion": str(version)}}


def stream(*events: Any, ends: bool = True) -> Callable[[web.Request], Any]:
    """Return a watch that says these events, and ends or stays open."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for event in events:
            line = event if isinstance(event, bytes) else json.dumps(event).encode()
            half = len(line) // 2
            await response.write(line[:half])
            await response.write(line[half:] + b"\n")
        if not ends:
            await asyncio.sleep(60)
        return response

    return answer


def event(kind: str, name: str, version: int) -> dict[str, Any]:
    """Return one event."""
    return {"type": kind, "object": pod(name, version)}


async def take(api: KubeApi, count: int) -> list[str]:
    """Return what a watch yields first, in short; what says that nothing changed is left out."""
    found: list[str] = []
    async with asyncio.timeout(20):
        async for said in Watch(api, PODS, PodView).run():
            match said:
                case Listed(items):
                    found.append("listed " + " ".join(item.metadata.name for item in items))
                case Changed(item):
                    found.append(f"changed {item.metadata.name}")
                case Removed(item):
                    found.append(f"removed {item.metadata.name}")
                case Lost(why):
                    found.append(f"lost {why}")
                case Fresh():
                    pass
            if len(found) >= count:
                break
    return found


async def test_a_watch_lists_and_then_goes_on_where_it_was(server: ApiServer, api: KubeApi) -> None:
    """A server ends each watch after some minutes: nothing is listed again for that, and bookmarks count."""
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}}
    server.answers = [
        listed(5, "a"),
        stream(event("ADDED", "b", 6), event("MODIFIED", "a", 7)),
        stream(event("DELETED", "a", 8), bookmark),
        stream(event("ADDED", "c", 10), ends=False),
    ]
    said = await take(api, 5)
    assert said == ["listed a", "changed b", "changed a", "removed a", "changed c"]
    assert [each.query.get("resourceVersion") for each in server.asked] == [None, "5", "7", "9"]


@pytest.mark.parametrize(
    "outdated",
    [
        (410, {"message": "too old"}),
        stream({"type": "ERROR", "object": {"code": 410, "message": "too old"}}),
    ],
    ids=["at-once", "in-the-middle"],
)
async def test_a_version_that_is_too_old_is_listed_again(
    server: ApiServer, api: KubeApi, outdated: Any
) -> None:
    """What vanished meanwhile is seen by what the list lacks."""
    server.answers = [listed(5, "a", "b"), outdated, listed(50, "b"), stream(ends=False)]
    said = await take(api, 3)
    assert said == ["listed a b", "lost too old", "listed b"]


async def test_what_cannot_be_read_breaks_the_watch_and_skips_nothing(
    server: ApiServer, api: KubeApi
) -> None:
    """It goes on after the last event that was taken."""
    server.answers = [
        listed(5),
        stream(event("ADDED", "a", 6), b"{nonsense", event("ADDED", "b", 7)),
        stream(event("ADDED", "b", 7), ends=False),
    ]
    said = await take(api, 4)
    assert said[1] == "changed a"
    assert said[2].startswith("lost the Kubernetes API says what cannot be read")
    assert said[3] == "changed b"
    assert server.asked[-1].query["resourceVersion"] == "6"


async def test_a_large_object_is_read_whole(server: ApiServer, api: KubeApi) -> None:
    """A line of a pod with much status is longer than what readers of lines take."""
    large = event("ADDED", "a", 6)
    large["object"]["metadata"]["annotations"] = {"x": "y" * 600_000}
    server.answers = [listed(5), stream(large, ends=False)]
    assert await take(api, 2) == ["listed ", "changed a"]


async def test_a_server_that_was_away_is_watched_again(server: ApiServer, api: KubeApi) -> None:
    """Asked ever less often meanwhile; then from where it was."""
    server.answers = [listed(5, "a"), stream(event("ADDED", "b", 6), ends=False)]
    said: list[Any] = []
    first, lost, again = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def watch() -> None:
        async for one in Watch(api, PODS, PodView).run():
            said.append(one)
            if isinstance(one, Lost):
                lost.set()
            if isinstance(one, Changed):
                (again if one.item.metadata.name == "c" else first).set()

    task = asyncio.create_task(watch())
    async with asyncio.timeout(20):
        await first.wait()
        await server.stop()
        await lost.wait()
        server.answers = [stream(event("ADDED", "c", 7), ends=False)]
        await server.run(server.port)
        await again.wait()
    task.cancel()
    assert server.asked[-1].query["resourceVersion"] == "6"
    assert sum(isinstance(one, Listed) for one in said) == 1


async def test_a_watch_whose_server_hangs_is_lost(
    server: ApiServer, api: KubeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing comes any more, and nothing is closed: it is asked on another connection whether anybody is there."""
    monkeypatch.setattr("shared.kube.watch.QUIET_S", 0.1)
    monkeypatch.setattr("shared.kube.watch.PROBE_S", 0.3)

    async def hangs(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        raise AssertionError

    alive = listed(5)
    quiet = stream(ends=False)
    server.answers = [
        listed(5),
        quiet,
        alive,
        alive,
        hangs,
        stream(event("ADDED", "a", 6), ends=False),
    ]
    said = await take(api, 3)
    assert said[1].startswith("lost no answer of the Kubernetes API")
    assert said[2] == "changed a"


def test_pauses_grow_and_are_bounded() -> None:
    """Each by chance, so that many watchers do not come together."""
    assert [pause_s(n, 1.0) for n in (1, 2, 3, 4, 5, 6, 60)] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert pause_s(1, 0.0) == BACK_OFF_S[0] / 2
