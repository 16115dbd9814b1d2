"""A system on Kubernetes is left as it was found, whatever a run, a command or a node does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from chaos.adapters import kubernetes
from chaos.adapters.kubernetes import KubeCluster, Where, on_kubernetes
from chaos.core.driver import Templates
from shared.errors import Unavailable
from shared.pools import PoolSpec
from shared.testing.look import until
from shared.testing.relay import Relay

POOL = "chaos-1"


class Second:
    """A connection."""

    is_closed = False

    async def close(self) -> None:
        """Note it."""
        self.is_closed = True


class Site:
    """A system, as far as it is asked here."""

    def __init__(self) -> None:
        self.admin = None
        self.seconds: list[Second] = []

    def gateway(self) -> tuple[str, int]:
        """Nobody is there."""
        return "127.0.0.1", 9

    async def second(self) -> Second:
        """Connect."""
        self.seconds.append(Second())
        return self.seconds[-1]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    """The system that is reached."""
    found = Site()

    @asynccontextmanager
    async def opened(*_: Any, **__: Any) -> AsyncIterator[Site]:
        yield found

    monkeypatch.setattr(kubernetes, "open_site", opened)
    return found


@pytest.fixture
def relays(monkeypatch: pytest.MonkeyPatch) -> list[Relay]:
    """The relays that are still open, of those that were made."""
    left: list[Relay] = []

    class Noted(Relay):
        def __init__(self) -> None:
            super().__init__()
            left.append(self)

        def close(self) -> None:
            super().close()
            left.remove(self)

    monkeypatch.setattr(kubernetes, "Relay", Noted)
    return left


STUCK = Where(driver=Templates(down="true {node}", up="sh -c 'echo no power >&2; exit 3' {node}"))


async def with_a_node_down(say: Callable[[str], None], ends: Exception | None = None) -> None:
    """Run with a node down that can't be brought back, and end so."""
    async with on_kubernetes(STUCK, PoolSpec(name=POOL), lambda: 0.0, say) as cluster:
        await cluster.down("n1")
        if ends is not None:
            raise ends


async def test_a_node_that_cannot_be_brought_back_leaves_nothing_open(
    site: Site, relays: list[Relay]
) -> None:
    """And is told of."""
    with pytest.raises(Unavailable, match="no power"):
        await with_a_node_down(print)

    assert site.seconds[0].is_closed
    assert relays == []


async def test_a_runs_own_error_is_told_though_a_node_cannot_be_brought_back(
    site: Site, relays: list[Relay]
) -> None:
    """It came first; the node is told of as well."""
    said: list[str] = []

    with pytest.raises(ValueError, match="of the run"):
        await with_a_node_down(said.append, ValueError("of the run"))

    assert any("no power" in words for words in said)
    assert site.seconds[0].is_closed
    assert relays == []


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KubeCluster]:
    """One whose nodes go down only when they are let; what was done to them stands in `done`."""
    relay = Relay()
    found = KubeCluster(Site(), Second(), relay, lambda: 0.0)  # type: ignore[arg-type]  # what it uses of them
    place = f"cd {tmp_path}"
    found.driver = Templates(
        down=f"sh -c '{place}; : >begun; until [ -e let ]; do sleep 0.05; done; echo down >>done' {{node}}",
        up=f"sh -c '{place}; echo up >>done' {{node}}",
    )
    yield found
    (tmp_path / "let").touch()
    relay.close()


async def test_a_node_is_brought_back_after_it_is_down_though_nobody_waits_for_that_any_more(
    cluster: KubeCluster, tmp_path: Path
) -> None:
    """The command goes on when the fault was given up: what it does last must not be what stays."""
    going = asyncio.create_task(cluster.down("n1"))
    await until((tmp_path / "begun").exists)
    going.cancel()
    await asyncio.wait({going})

    back = asyncio.create_task(cluster.up("n1"))
    await asyncio.wait({back}, timeout=0.3)
    (tmp_path / "let").touch()
    await back

    assert (tmp_path / "done").read_text().split() == ["down", "up"]
