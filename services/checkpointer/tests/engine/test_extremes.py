"""What a save takes a restore gives back, up to the last entry of each bound; what it would not give back is not saved."""

from __future__ import annotations

import os
import random
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkpointer.adapters.files import linux
from checkpointer.adapters.files.room import clear
from checkpointer.core import assemble, bounds
from checkpointer.core.entries import INLINE_BYTES_MAX
from checkpointer.core.snapshot import TORN_BYTES_MAX, TORN_PATHS_MAX, cut_torn
from shared import limits
from shared.errors import LimitExceeded


@pytest.fixture
def places(rig: Any) -> Iterator[list[Path]]:
    """Two directories, emptied afterwards: the test's own cleaning can't, it recurses."""
    made = [rig.new_place(), rig.new_place()]
    yield made
    for place in made:
        fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        clear(fd)
        os.close(fd)


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory on tmpfs: half a million files are soon made there, and soon gone."""
    place = Path(f"/dev/shm/extremes-{os.getpid()}")
    place.mkdir()
    yield place
    subprocess.run(["rm", "-rf", place], check=True)


def dig(place: Path, names: list[bytes]) -> None:
    """Make directories in one another, and a file at the bottom."""
    at = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    for name in names:
        os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
        os.close(at)
        at = below
    fd = os.open(b"bottom", os.O_CREAT | os.O_WRONLY, dir_fd=at)
    os.write(fd, b"content" * 100)
    os.close(fd)
    os.close(at)


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [
        [b"d"] * limits.WORKSPACE_DEPTH_MAX,
        [b"d" * 255] * (limits.WORKSPACE_PATH_BYTES_MAX // 256 - 1),
    ],
)
async def test_the_deepest_file_comes_back(
    rig: Any, places: list[Path], names: list[bytes]
) -> None:
    """Far below where a path of the kernel's ends."""
    dig(places[0], names)
    saved = await rig.save(places[0])
    restored = await rig.restore(saved.ref, places[1])
    again = await rig.save(places[1], saved.ref)

    root = os.open(places[1], os.O_RDONLY | os.O_DIRECTORY)
    file = linux.open_beneath(root, b"/".join([*names, b"bottom"]), os.O_RDONLY)
    assert os.read(file, 1000) == b"content" * 100
    os.close(file)
    os.close(root)
    assert restored.entries == len(names) + 1
    assert not again.is_new


@pytest.mark.slow
@pytest.mark.pure
@pytest.mark.timeout(600)
async def test_half_a_million_entries_of_a_directory_come_back(rig: Any, memory: Path) -> None:
    """In one node."""
    count, place, target = limits.WORKSPACE_FOLDER_ENTRIES_MAX, memory / "from", memory / "to"
    for folder in (place, target):
        folder.mkdir()
    root = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    for number in range(count):
        os.mknod(b"%x" % number, 0o600 | stat.S_IFREG, dir_fd=root)
    os.close(root)
    (place / "0").write_bytes(b"x" * INLINE_BYTES_MAX)
    saved = await rig.save(place)
    restored = await rig.restore(saved.ref, target)

    assert restored.entries == count
    assert (target / "0").read_bytes() == b"x" * INLINE_BYTES_MAX
    assert (target / f"{count - 1:x}").exists()


async def test_a_directory_whose_entries_say_too_much_is_not_saved(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attributes of many files: no restore would read that node, so the last good snapshot stays."""
    place = rig.new_place()
    (place / "folder").mkdir()
    for number in range(20):
        (place / "folder" / f"{number}").write_text("x")
    monkeypatch.setattr(assemble, "NODE_BYTES_MAX", 2000)
    first = await rig.save(place)
    for number in range(20):
        os.setxattr(place / "folder" / f"{number}", "user.x", bytes(100))

    with pytest.raises(
        LimitExceeded,
        match=r"folder: what its entries say of themselves has \d+ bytes, at most 2000",
    ):
        await rig.save(place, first.ref)


@pytest.mark.usefixtures("tracked")
async def test_attributes_of_many_files_are_bounded(
    rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are held until the tree is built; those of files that did not change are not."""
    place, ref = rig.new_place(), None
    monkeypatch.setattr(limits, "WORKSPACE_XATTRS_BYTES_MAX", 1060)
    for name in ("a", "b"):
        for number in range(10):
            (place / f"{name}{number}").write_text("x")
            os.setxattr(place / f"{name}{number}", "user.x", bytes(100))
        await rig.settle()
        ref = (await rig.save(place, ref)).ref
        await rig.settle()
        ref = (await rig.save(place, ref)).ref

    with pytest.raises(
        LimitExceeded, match="b0: extended attributes of all changed files have more than 1060"
    ):
        await rig.save(place, None)


def test_a_reader_accepts_all_that_a_save_takes() -> None:
    """Bound by bound."""
    assert bounds.NODE_ENTRIES_MAX >= limits.WORKSPACE_FOLDER_ENTRIES_MAX
    assert bounds.TREE_ENTRIES_MAX >= limits.WORKSPACE_ENTRIES_MAX
    assert bounds.TREE_DEPTH_MAX >= limits.WORKSPACE_DEPTH_MAX
    assert bounds.XATTRS_BYTES_MAX >= limits.WORKSPACE_XATTR_BYTES_MAX
    assert bounds.FILE_BYTES_MAX >= limits.WORKSPACE_SPARSE_BYTES_MAX


def test_a_body_names_the_first_of_many_torn_paths() -> None:
    """However many there are, the snapshot is taken."""
    assert cut_torn([b"a", b"b"]) == (b"a", b"b")
    assert len(cut_torn([b"%d" % number for number in range(5000)])) == TORN_PATHS_MAX
    assert sum(map(len, cut_torn([b"x" * 60_000] * 100))) <= TORN_BYTES_MAX


async def test_a_save_that_the_store_has_no_room_for_leaves_nothing_there(rig: Any) -> None:
    """Else one workspace that is too large would keep the store full, and nobody could save anything."""
    rig.local.pack_bytes = 100_000
    place = rig.new_place()
    (place / "a").write_bytes(random.Random(1).randbytes(150_000))
    first = await rig.save(place)
    before = rig.files()
    await rig.settle()
    (place / "b").write_bytes(random.Random(2).randbytes(8_000_000))

    def full(_number: int, verb: str, _key: str) -> None:
        if verb == "put" and len(rig.files()) >= len(before) + 3:
            raise LimitExceeded("No space left on device")

    rig.faults.plan = full
    with pytest.raises(LimitExceeded):
        await rig.save(place, first.ref)

    assert rig.files() == before
    rig.faults.plan = None
    assert (await rig.save(place, first.ref)).is_new
