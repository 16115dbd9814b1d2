"""Saves of trees that change, or are closed, between the look and the read: what was saved once is not lost."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from checkpointer.adapters.engine.save import Watcher
from checkpointer.adapters.stores.local import LocalStore
from checkpointer.core.merge import LOOSE_PACKS_MAX
from shared.testing.ordinary import ORDINARY_UID

FIRST_BATCH_BYTES = 5 * 1024 * 1024


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Be an ordinary user for a block, all threads of this process too."""
    os.setegid(ORDINARY_UID)
    os.seteuid(ORDINARY_UID)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.fixture
async def users_rig(rig: Any) -> AsyncIterator[Any]:
    """A rig that belongs to an ordinary user, in a directory that he can reach."""
    if os.geteuid() != 0:
        pytest.skip("closing a directory to its own reader needs a change of users")
    place = rig.new_place()
    (place / "file").write_text("x")
    await rig.restore(
        (await rig.save(place)).ref, rig.new_place()
    )  # he may not import what is imported late
    base = Path(tempfile.mkdtemp(prefix="unsteady-"))
    os.chown(base, ORDINARY_UID, ORDINARY_UID)
    with ordinary_user():
        local = await LocalStore.open(base / "store", "cluster")
        yield type(rig)(base, local)
        await local.close()
    shutil.rmtree(base)


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("merges", [False, True])
async def test_what_a_closed_directory_held_is_kept(
    users_rig: Any, describe: Any, *, merges: bool, cached: bool
) -> None:
    """The checkpointer of an ordinary user can't look into it: it stays as it was, through saves and merges of packs."""
    place, ref, chance = users_rig.new_place(), None, random.Random(3)
    (place / "in" / "closed" / "deep").mkdir(parents=True)
    (place / "in" / "closed" / "deep" / "file").write_bytes(chance.randbytes(50_000))
    (place / "in" / "file").write_bytes(chance.randbytes(1000))
    ref = (await users_rig.save(place, ref)).ref
    (place / "in" / "file").chmod(0)
    before = describe(place / "in" / "closed")
    modes = [0o000, 0o100, 0o000, 0o010]
    for number in range(LOOSE_PACKS_MAX + 3 if merges else len(modes)):
        (place / "in" / "closed").chmod(modes[number % len(modes)])
        (place / "in" / f"new{number}").write_bytes(chance.randbytes(20_000))
        saved = await users_rig.save(place, ref, cached=cached)
        ref = saved.ref
        assert saved.skipped == {b"in/closed": "unreadable"}
    target = users_rig.new_place()
    await users_rig.restore(ref, target, cached=False)
    (target / "in" / "closed").chmod(0o700)

    assert describe(target / "in" / "closed") == before
    assert (target / "in" / "file").stat().st_size == 1000


async def test_a_file_of_several_names_is_saved_while_one_of_them_goes(rig: Any) -> None:
    """The first name vanishes after the scan: the others hold the content."""
    place = rig.new_place()
    (place / "a").write_bytes(bytes(range(256)) * (FIRST_BATCH_BYTES // 256))
    (place / "b-first").write_bytes(b"content" * 100)
    for name in ("c-second", "d-third"):
        (place / name).hardlink_to(place / "b-first")

    def moved(*_figures: int) -> None:
        (place / "b-first").unlink(missing_ok=True)

    saved = await rig.save(place, watcher=Watcher(moved=moved))
    target = rig.new_place()
    await rig.restore(saved.ref, target)

    assert (target / "c-second").read_bytes() == b"content" * 100
    assert (target / "c-second").samefile(target / "d-third")


async def test_a_file_that_was_replaced_is_not_taken_for_the_others_of_its_names(rig: Any) -> None:
    """Editors write a new file and rename it over one of the names."""
    place = rig.new_place()
    (place / "a").write_bytes(bytes(range(256)) * (FIRST_BATCH_BYTES // 256))
    (place / "b-first").write_bytes(b"content" * 100)
    (place / "c-second").hardlink_to(place / "b-first")

    def moved(*_figures: int) -> None:
        (place / "new").write_bytes(b"other")
        (place / "new").rename(place / "b-first")

    saved = await rig.save(place, watcher=Watcher(moved=moved))
    target = rig.new_place()
    await rig.restore(saved.ref, target)

    assert (target / "c-second").read_bytes() == b"content" * 100


async def test_without_a_cache_an_emptied_directory_is_empty(rig: Any) -> None:
    """What the parent held of it is looked at, not believed."""
    place = rig.new_place()
    (place / "a").mkdir()
    (place / "a" / "file").write_text("x")
    first = await rig.save(place, cached=False)
    (place / "a" / "file").unlink()
    second = await rig.save(place, first.ref, cached=False)
    target = rig.new_place()
    await rig.restore(second.ref, target)

    assert [one.name for one in target.rglob("*")] == ["a"]
