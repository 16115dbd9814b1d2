"""Edit, save, lose everything, restore elsewhere: again and again, with faults at every step."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkpointer.core.chunks import SQLITE_MAGIC
from checkpointer.core.merge import LOOSE_PACKS_MAX
from checkpointer.testing.fault_store import How, at
from shared.errors import ServiceError

CYCLES = 10


def edit(place: Path, chance: random.Random) -> None:
    """Do what a task does to a workspace: a few things at random."""
    old_files = sorted(one for one in place.rglob("*") if one.is_file() and not one.is_symlink())
    folders = [
        place,
        *sorted(one for one in place.rglob("*") if one.is_dir() and not one.is_symlink()),
    ]
    for _ in range(chance.randrange(1, 12)):
        name = chance.choice(folders) / f"n{chance.randrange(10**6)}"
        files = [one for one in old_files if one.exists()]
        match chance.randrange(9):
            case 0 | 1 | 2:
                name.write_bytes(chance.randbytes(chance.choice((0, 10, 3_000, 40_000, 400_000))))
            case 3 if files:
                with chance.choice(files).open("r+b") as file:
                    file.seek(chance.randrange(2_000))
                    file.write(chance.randbytes(50))
            case 4 if files:
                with chance.choice(files).open("ab") as file:
                    file.write(chance.randbytes(1_000))
            case 5:
                name.mkdir()
            case 6 if files:
                chance.choice(files).unlink()
            case 7 if files:
                name.symlink_to(chance.choice(files))
            case 8 if files:
                chance.choice((os.link, shutil.move, shutil.copy2))(chance.choice(files), name)


@pytest.mark.parametrize("seed", range(2))
async def test_ten_cycles_of_edit_save_and_restore_elsewhere(rig, describe, seed) -> None:
    """What is restored is what was there, each time: with the cache, without it, in small packs that are merged."""
    rig.local.pack_bytes = 100_000
    chance = random.Random(seed)
    place, ref = rig.new_place(), None
    (place / "database").write_bytes(SQLITE_MAGIC + chance.randbytes(300_000))
    for _ in range(CYCLES):
        for _ in range(chance.randrange(1, 4)):
            edit(place, chance)
            ref = (await rig.save(place, ref, cached=chance.random() < 0.8)).ref
        target = rig.new_place()
        await rig.restore(ref, target, cached=chance.random() < 0.8)

        assert describe(target) == describe(place)

        shutil.rmtree(place)
        place = target


async def test_every_snapshot_of_a_chain_stays_readable(rig, describe) -> None:
    """Later saves change nothing of what earlier ones stored, also where they merge its packs."""
    rig.local.pack_bytes = 100_000
    chance, place = random.Random(11), rig.new_place()
    kept, ref = [], None
    for _ in range(LOOSE_PACKS_MAX + 8):
        edit(place, chance)
        ref = (await rig.save(place, ref)).ref
        kept.append((ref, describe(place)))
    body = await rig.body(ref)

    assert body.index is not None
    assert len(body.packs) < LOOSE_PACKS_MAX
    for one, tree in kept[::8] + kept[-3:]:
        target = rig.new_place()
        await rig.restore(one, target, cached=False)

        assert describe(target) == tree


async def test_a_merge_drops_what_nothing_needs(rig, describe) -> None:
    """A file that is written anew each time leaves packs behind of which the newest snapshot needs none."""
    place, ref = rig.new_place(), None
    chance = random.Random(4)
    (place / "kept").write_bytes(chance.randbytes(50_000))
    for _ in range(LOOSE_PACKS_MAX + 3):
        (place / "changing").write_bytes(chance.randbytes(100_000))
        ref = (await rig.save(place, ref)).ref
    body = await rig.body(ref)
    target = rig.new_place()
    await rig.restore(ref, target, cached=False)

    assert sum(info.size for info in body.packs) < 400_000
    assert describe(target) == describe(place)


def faults() -> Iterator[tuple[int, How]]:
    """Yield each call of a save or restore, and how it fails."""
    for number in range(40):
        yield number, "before"
        yield number, "after"


async def test_a_save_that_fails_at_any_call_leaves_the_last_snapshot_as_it_was(
    rig, describe
) -> None:
    """Refused or unanswered, first pack or last: the same save succeeds afterwards, under new names."""
    rig.local.pack_bytes = 50_000
    place, chance = rig.new_place(), random.Random(8)
    for number in range(6):
        (place / f"old{number}").write_bytes(chance.randbytes(60_000))
    first = await rig.save(place)
    before = describe(place)
    failed = 0
    for number, how in faults():
        (place / "new").write_bytes(chance.randbytes(120_000))
        rig.faults.calls.clear()
        rig.faults.plan = at(number, how)
        try:
            await rig.save(place, first.ref)
        except ServiceError:
            failed += 1
        else:
            break
        finally:
            rig.faults.plan = None
        target = rig.new_place()
        await rig.restore(first.ref, target)

        assert describe(target) == before

    second = await rig.save(place, first.ref)
    target = rig.new_place()
    await rig.restore(second.ref, target)

    assert failed >= 4
    assert describe(target) == describe(place)


async def test_a_restore_that_fails_at_any_call_says_so(rig, describe) -> None:
    """Never less than all, silently: it raises, or it is complete."""
    rig.local.pack_bytes = 50_000
    source, chance = rig.new_place(), random.Random(9)
    for number in range(5):
        (source / f"file{number}").write_bytes(chance.randbytes(70_000))
    saved = await rig.save(source)
    failed = 0
    for number in range(40):
        for how in ("before", "corrupt"):
            target = rig.new_place()
            rig.faults.calls.clear()
            rig.faults.plan = at(number, how)
            try:
                await rig.restore(saved.ref, target, cached=False)
            except ServiceError:
                failed += 1
            else:
                assert describe(target) == describe(source)
            finally:
                rig.faults.plan = None
        if len(rig.faults.calls) <= number:
            break

    assert failed > 10


async def test_only_what_the_parent_holds_is_not_stored_again(rig) -> None:
    """What a save that came to nothing has stored may be collected at any time: nothing builds on it."""
    place, chance = rig.new_place(), random.Random(2)
    (place / "file").write_bytes(b"x")
    first = await rig.save(place)
    (place / "large").write_bytes(chance.randbytes(200_000))
    lost = await rig.save(place, first.ref)

    again = await rig.save(place, first.ref)

    assert again.stored_bytes >= 200_000
    assert lost.ref.pack not in {info.key for info in (await rig.body(again.ref)).packs}
