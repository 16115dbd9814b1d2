"""What counts as a pack that is damaged or gone, and so alarms people."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from checkpointer.testing.live import Live, Owned, fill, saved
from shared.bus import Bus
from shared.cluster import Cluster

BAD = "agent_sandbox_checkpoint_packs_bad_total{"


class Folder:
    """A checkpointer with a store in a folder, and its metrics."""

    def __init__(self, live: Live, store: Path, url: Path) -> None:
        """Use the fixture."""
        self.live, self._store, self._url = live, store, url

    def packs(self) -> list[Path]:
        """Return the files of all packs."""
        return [path for path in self._store.glob("*/*/*") if path.is_file()]

    async def bad(self) -> dict[str, float]:
        """Return what was counted, by `op` and `reason`."""
        url = self._url.read_text().strip()
        answer = await asyncio.to_thread(urllib.request.urlopen, f"{url}/metrics", timeout=10)
        lines = answer.read().decode().splitlines()
        found = (line.removeprefix(BAD).split("} ") for line in lines if line.startswith(BAD))
        return {labels: float(value) for labels, value in found}


@pytest.fixture
async def folder(
    admin_bus: Bus, provisioned_cluster: Cluster, tmp_path: Path
) -> AsyncIterator[Folder]:
    """It runs."""
    store, url = tmp_path / "store", tmp_path / "url"
    store.mkdir()
    live = Live(
        provisioned_cluster, tmp_path, admin_bus, STORE=f"local:{store}",
        PROBES="127.0.0.1:0", PROBES_URL_FILE=str(url),
    )  # fmt: skip
    try:
        await live.start()
        yield Folder(live, store, url)
    finally:
        live.kill()


async def test_each_find_of_a_bad_pack_is_counted_and_nothing_else(folder: Folder) -> None:
    """A save that goes on without its parent is a find, too. A rescue that finds nothing to save is an everyday thing: an
    alarm for it would be ignored one day."""
    live = folder.live
    owned = Owned(live)
    await owned.write()
    fill(live.workspace(owned.pod))
    first = await saved(owned)
    rescuer = f"ckpt-{live.node}"
    await owned.write(replace(owned.record, state="rescuing", owner=rescuer, epoch=2))
    unmarked = await live.ask(owned.asking("rescue", first), "rescue")
    assert (unmarked.error and unmarked.error.code) == "not_found"
    assert await folder.bad() == {}
    await owned.write(replace(owned.record, state="running", owner=owned.pod, epoch=3))

    for pack in folder.packs():
        data = bytearray(pack.read_bytes())
        data[len(data) // 2] ^= 1
        pack.chmod(0o600)
        pack.write_bytes(data)
    damaged = await live.ask(owned.asking("restore", first))
    assert (damaged.error and damaged.error.code) == "damaged"
    assert await folder.bad() == {'op="restore",reason="damaged"': 1.0}

    for pack in folder.packs():
        pack.unlink()
    for remembered in (live.pods / owned.pod).iterdir():
        if remembered.is_file():  # what it holds need not be read
            remembered.unlink()
    (live.workspace(owned.pod) / "later").write_text("after the loss")
    await saved(owned, first)
    assert await folder.bad() == {
        'op="restore",reason="damaged"': 1.0,
        'op="save",reason="missing"': 1.0,
    }
