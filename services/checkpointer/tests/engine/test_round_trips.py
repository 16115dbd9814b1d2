"""What was saved is what is restored, and what did not change costs nothing."""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path

import pytest

from checkpointer.adapters.engine.restore import Follower
from checkpointer.core.bounds import LIST_CHUNKS
from checkpointer.core.chunks import FIXED_BYTES, SQLITE_MAGIC
from shared.errors import Conflict


def fill(place: Path, seed: int = 1) -> None:
    """Make one of everything that a snapshot holds."""
    chance = random.Random(seed)
    (place / "deep" / "er").mkdir(parents=True)
    (place / "empty").mkdir()
    (place / "nothing").write_bytes(b"")
    (place / "short").write_bytes(b"short")
    (place / "middle").write_bytes(chance.randbytes(5_000))
    (place / "deep" / "large").write_bytes(chance.randbytes(600_000))
    (place / "deep" / "er" / "text").write_text("line\n" * 60_000)
    (place / "database").write_bytes(SQLITE_MAGIC + chance.randbytes(200_000))
    os.link(place / "middle", place / "deep" / "er" / "same")
    (place / "link").symlink_to("deep/er/text")
    (place / "dangling").symlink_to("/nowhere")
    os.mkfifo(place / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(place)
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
    with (place / "sparse").open("wb") as sparse:
        sparse.seek(3_000_000)
        sparse.write(b"end")
        sparse.truncate(5_000_000)
    Path(os.fsdecode(os.fsencode(place) + b"/\xff\n name")).write_bytes(b"strange")
    (place / "tool").write_bytes(b"#!/bin/sh\n")
    (place / "tool").chmod(0o751)
    os.setxattr(place / "short", "user.note", b"\0\1")
    os.utime(place / "short", ns=(1, 1_234_567_890_123_456_789))
    os.utime(place / "deep", ns=(1, 987_654_321_000_000_001))


async def test_a_file_of_many_chunks_fills_more_packs_than_lie_loose(rig, describe) -> None:
    """Packs are put in order by the very save that makes them, whose lists of chunks are in no pack yet."""
    source, target = rig.new_place(), rig.new_place()
    size = (LIST_CHUNKS + 100) * FIXED_BYTES
    (source / "database").write_bytes(SQLITE_MAGIC + random.Random(1).randbytes(size))
    rig.local.pack_bytes = 256 * 1024

    saved = await rig.save(source)
    await rig.restore(saved.ref, target)

    assert describe(target) == describe(source)


async def test_everything_comes_back_as_it_was(rig, describe) -> None:
    """Names, kinds, contents, holes, links, modes, times and attributes."""
    source, target = rig.new_place(), rig.new_place()
    fill(source)

    saved = await rig.save(source)
    restored = await rig.restore(saved.ref, target)

    assert describe(target) == describe(source)
    assert (saved.ref.entries, saved.is_new, restored.metadata_refused) == (17, True, 0)
    assert (target / "sparse").stat().st_blocks * 512 < 200_000


@pytest.mark.usefixtures("tracked")
@pytest.mark.parametrize("cached", [True, False])
async def test_a_save_without_a_change_returns_its_parent_and_stores_nothing(rig, cached) -> None:
    """With a cache it reads nothing, either; without one it reads all and finds it known."""
    place = rig.new_place()
    fill(place)
    first = await rig.save(place, cached=cached)
    await rig.settle()
    await rig.save(
        place, first.ref, cached=cached
    )  # what had just been written is looked at again once
    before = rig.files()

    again = await rig.save(place, first.ref, cached=cached)

    assert (again.ref, again.is_new, again.stored_bytes) == (first.ref, False, 0)
    assert rig.files() == before
    assert (again.read_bytes == 0) == cached


async def test_the_first_save_after_a_restore_reads_nothing(rig) -> None:
    """A restore leaves a cache: a pod that takes a session over does not read its whole workspace."""
    source, target = rig.new_place(), rig.new_place()
    fill(source)
    first = await rig.save(source)
    await rig.restore(first.ref, target)

    again = await rig.save(target, first.ref)

    assert (again.ref, again.read_bytes) == (first.ref, 0)


async def test_whatever_changes_after_a_restore_is_seen(rig, describe) -> None:
    """Content of the same size with its old time, a mode, an attribute alone, what is new and what is gone."""
    source, target, third = rig.new_place(), rig.new_place(), rig.new_place()
    fill(source)
    first = await rig.save(source)
    await rig.restore(first.ref, target)
    await rig.settle()
    about = (target / "middle").stat()
    with (target / "middle").open("r+b") as file:
        file.write(b"other")
    os.utime(target / "middle", ns=(about.st_atime_ns, about.st_mtime_ns))
    (target / "deep" / "large").chmod(0o600)
    os.setxattr(target / "deep" / "er" / "text", "user.mark", b"set")
    (target / "new").write_text("new")
    for one in ("nothing", "short", "tool", "pipe", "socket", "link", "dangling"):
        (target / one).unlink()
    (target / "empty").rmdir()

    second = await rig.save(target, first.ref)
    await rig.restore(second.ref, third, cached=False)

    assert describe(third) == describe(target)


async def test_an_empty_workspace_has_no_snapshot_until_something_is_there(rig) -> None:
    """Nothing to store, nothing to restore."""
    place = rig.new_place()

    nothing = await rig.save(place)
    (place / "file").write_text("x")
    something = await rig.save(place)
    (place / "file").unlink()
    emptied = await rig.save(place, something.ref)

    assert nothing.ref is None
    assert emptied.is_new
    assert emptied.ref.entries == 0


async def test_only_what_changed_is_stored(rig) -> None:
    """A changed page of a database costs its chunk, an insert into a text its neighbourhood."""
    place = rig.new_place()
    chance = random.Random(3)
    (place / "database").write_bytes(SQLITE_MAGIC + chance.randbytes(FIXED_BYTES * 200))
    (place / "text").write_bytes(chance.randbytes(2_000_000))
    first = await rig.save(place)

    with (place / "database").open("r+b") as file:
        file.seek(FIXED_BYTES * 100)
        file.write(b"page")
    second = await rig.save(place, first.ref)
    text = (place / "text").read_bytes()
    (place / "text").write_bytes(text[:1_000_000] + b"inserted" + text[1_000_000:])
    third = await rig.save(place, second.ref)

    assert second.stored_bytes < 2 * FIXED_BYTES
    assert third.stored_bytes < 400_000


async def test_a_file_of_thousands_of_chunks_comes_back(rig, describe) -> None:
    """More than 1,024 chunks are named by list nodes; a file of more than two segments is read by several threads."""
    source, target = rig.new_place(), rig.new_place()
    block = random.Random(5).randbytes(1 << 20)
    with (source / "database").open("wb") as file:
        file.write(SQLITE_MAGIC.ljust(FIXED_BYTES, b"x"))
        for number in range(70):
            file.write(number.to_bytes(4, "big") + block[4:])
    first = await rig.save(source)
    assert (source / "database").stat().st_size / FIXED_BYTES > 4 * LIST_CHUNKS

    with (source / "database").open("r+b") as file:
        file.seek(50 << 20)
        file.write(b"changed")
    second = await rig.save(source, first.ref)
    await rig.restore(second.ref, target)

    assert describe(target) == describe(source)
    assert second.stored_bytes < 200_000


async def test_a_full_workspace_is_not_restored_over(rig) -> None:
    """What is there is somebody's."""
    place = rig.new_place()
    (place / "file").write_text("x")
    saved = await rig.save(place)

    with pytest.raises(Conflict, match="file"):
        await rig.restore(saved.ref, place)


async def test_the_gate_opens_when_what_changed_last_is_there(rig) -> None:
    """User code begins with the files that it worked on; the rest arrives beside it."""
    source, target = rig.new_place(), rig.new_place()
    for number in range(40):
        (source / f"old{number}").write_bytes(random.Random(number).randbytes(300_000))
    first = await rig.save(source)
    (source / "fresh").write_bytes(random.Random(99).randbytes(1000))
    second = await rig.save(source, first.ref)
    there: list[set[str]] = []

    await rig.restore(
        second.ref, target,
        follower=Follower(gate_open=lambda: there.append({one.name for one in target.iterdir()})),
    )  # fmt: skip

    assert there == [{"fresh"}]
    assert len(list(target.iterdir())) == 41


async def test_what_a_task_read_is_brought_first_the_next_time(rig) -> None:
    """Though it never changed: access times tell, where the mount keeps them."""
    place, target = rig.new_place(), rig.new_place()
    fill(place)
    (place / "library").mkdir()
    (place / "library" / "module").write_text("code" * 1000)
    first = await rig.save(place)
    await rig.restore(first.ref, target)
    about = (target / "library" / "module").stat()
    (target / "library" / "module").read_text()
    (target / "fresh").write_text("x")
    second = await rig.save(target, first.ref)

    if (target / "library" / "module").stat().st_atime_ns == about.st_atime_ns:
        return  # mounted with `noatime`
    hot = [one.path for one in (await rig.body(second.ref)).hot]
    assert hot == [b"fresh", b"library/module"]
