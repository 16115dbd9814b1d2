"""Fixtures of the checkpointer's tests."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from checkpointer.adapters.files import linux
from checkpointer.testing.live import Live, Owned
from checkpointer.testing.s3_server import s3_server
from shared.bus import Bus
from shared.cluster import Cluster


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    """URL of a real S3 server, one for the whole run."""
    with s3_server() as url:
        yield url


@pytest.fixture
async def live(admin_bus: Bus, provisioned_cluster: Cluster, tmp_path: Path) -> AsyncIterator[Live]:
    """A checkpointer that runs."""
    made = Live(provisioned_cluster, tmp_path, admin_bus)
    try:
        await made.start()
        yield made
    finally:
        made.kill()


@pytest.fixture
async def owned(live: Live) -> Owned:
    """A session that a pod of the node owns."""
    session = Owned(live)
    await session.write()
    return session


@pytest.fixture
def tracked(tmp_path: Path) -> None:
    """Skips where the temporary folder's file system may not tell of writes through mappings: all is read there each time."""
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not linux.tracks_mapped_writes(fd):
            pytest.skip("the temporary folder is neither on ext4 nor on XFS or Btrfs")
    finally:
        os.close(fd)
