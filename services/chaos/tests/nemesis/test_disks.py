"""Disks that are full, and disks whose power fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from chaos.adapters.disks import NoDisk, PowerDisk, fill, mount_small, takes_a_byte, unmount
from chaos.nemesis.servers import turn_over

SIZE_MIB = 32


def test_a_file_is_damaged_in_place(tmp_path: Path) -> None:
    """Its size stays; so many bits of it are others."""
    path = tmp_path / "block"
    path.write_bytes(before := os.urandom(4096))

    assert turn_over(path, Random(3), 5)

    after = path.read_bytes()
    assert len(after) == len(before)
    assert sum((a ^ b).bit_count() for a, b in zip(before, after, strict=True)) == 5


def test_nothing_fits_on_a_full_disk_until_there_is_room_again(tmp_path: Path) -> None:
    """Not one byte; room is what the ballast took."""
    place = tmp_path / "disk"
    place.mkdir()
    try:
        mount_small(place, 4, 0o700)
    except NoDisk as exc:
        pytest.skip(f"no small disk can be mounted: {exc}")
    try:
        assert takes_a_byte(place)
        ballast = fill(place)
        assert not takes_a_byte(place)
        ballast.unlink()
        assert takes_a_byte(place)
    finally:
        unmount(place)
    assert not place.is_mount()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[PowerDisk]:
    """A disk with one folder, shown at `seen`."""
    made = PowerDisk(tmp_path / "image", tmp_path / "disk", SIZE_MIB)
    try:
        made.make()
        made.show("one", tmp_path / "seen")
    except NoDisk as exc:
        made.remove()
        pytest.skip(f"no disk can be made: {exc}")
    yield made
    made.remove()
    assert not made.place.is_mount()


def test_what_was_not_synced_is_gone_after_a_power_cut(disk: PowerDisk, tmp_path: Path) -> None:
    """What was synced is there to the last byte; both were read back before the cut."""
    synced, unsynced = tmp_path / "seen" / "synced", tmp_path / "seen" / "unsynced"
    with synced.open("wb") as file:
        file.write(b"kept" * 1000)
        file.flush()
        os.fsync(file.fileno())
    unsynced.write_bytes(b"lost" * 1000)
    assert unsynced.read_bytes() == b"lost" * 1000

    disk.cut()
    with pytest.raises(OSError, match=r"Input/output error"):
        (tmp_path / "seen" / "late").write_bytes(b"?")
    disk.restore()

    assert synced.read_bytes() == b"kept" * 1000
    assert not unsynced.exists() or unsynced.read_bytes() == b""
