"""Damage in a store is found, named, and never restored silently."""

from __future__ import annotations

import random

import pytest

from checkpointer.core.bounds import ID_BYTES
from checkpointer.core.frames import BODY, DATA, META, Codec
from checkpointer.core.merge import LOOSE_PACKS_MAX
from checkpointer.core.packs import MAGIC, TRAILER, read_contents, tail_of
from shared.errors import Damaged, NotFound, ServiceError


async def fill(rig):
    """Return a workspace of two packs and its snapshot; the second pack has data, nodes and the body."""
    rig.local.pack_bytes = 60_000
    place, chance = rig.new_place(), random.Random(6)
    (place / "random").write_bytes(chance.randbytes(70_000))
    (place / "folder").mkdir()
    (place / "folder" / "text").write_text("".join(f"line {n}\n" for n in range(9_000)))
    return place, await rig.save(place)


def flip(file, offset: int) -> None:
    """Change one bit of a file."""
    data = bytearray(file.read_bytes())
    data[offset] ^= 0x10
    file.chmod(0o600)
    file.write_bytes(data)


def parts(data: bytes) -> dict[str, range]:
    """Return where each kind of byte lies in a pack."""
    tail = tail_of(data, len(data), "")
    contents = read_contents(data[-tail:], len(data), Codec(), "")
    found = {"magic": range(len(MAGIC))}
    names = {DATA: "data", META: "node", BODY: "body"}
    for kind, offset, stored in zip(contents.kinds, contents.offsets, contents.stored, strict=True):
        found[names[kind]] = range(offset, offset + stored)
    end = len(data) - TRAILER.size
    found["footer"] = range(len(data) - tail, end)
    found |= {
        "footer length": range(end, end + 8),
        "footer hash": range(end + 8, end + 8 + ID_BYTES),
    }
    found["end"] = range(len(data) - 8, len(data))
    return found


@pytest.mark.parametrize(
    "part", ["data", "node", "body", "footer", "footer length", "footer hash", "end"]
)
async def test_each_kind_of_byte_is_missed(rig, part) -> None:
    """A restore meets one changed bit wherever it is, and names the pack."""
    _, saved = await fill(rig)
    first, last = sorted(rig.files(), key=lambda one: one.name in saved.ref.pack)
    file = first if part == "data" else last
    where = parts(file.read_bytes())[part]
    flip(file, where[len(where) // 2])

    with pytest.raises(Damaged, match=file.name):
        await rig.restore(saved.ref, rig.new_place(), cached=False)


async def test_damage_anywhere_is_never_restored_silently(rig, describe) -> None:
    """Of a hundred places at random: an error, or the bytes that were saved (where the place was not needed)."""
    place, saved = await fill(rig)
    chance, wanted, found = random.Random(1), describe(place), 0
    for _ in range(100):
        file = chance.choice(rig.files())
        whole = file.read_bytes()
        flip(file, chance.randrange(len(whole)))
        target = rig.new_place()
        try:
            await rig.restore(saved.ref, target, cached=False)
        except ServiceError:
            found += 1
        else:
            assert describe(target) == wanted
        file.write_bytes(whole)

    assert found > 90


async def test_a_pack_that_is_cut_or_gone_is_named(rig) -> None:
    """A store that lost something is no reason for less than all."""
    _, saved = await fill(rig)
    first, last = sorted(rig.files(), key=lambda one: one.name in saved.ref.pack)
    whole = first.read_bytes()
    first.chmod(0o600)
    first.write_bytes(whole[:-1000])

    with pytest.raises(ServiceError, match=first.name):
        await rig.restore(saved.ref, rig.new_place(), cached=False)

    first.unlink()
    with pytest.raises(NotFound, match=first.name):
        await rig.restore(saved.ref, rig.new_place(), cached=False)

    last.unlink()
    with pytest.raises(NotFound, match=last.name):
        await rig.restore(saved.ref, rig.new_place(), cached=False)


async def test_a_damaged_index_is_named(rig) -> None:
    """It says where everything lies: one changed bit in it is met before anything is written."""
    place, ref = rig.new_place(), None
    for number in range(LOOSE_PACKS_MAX + 2):
        (place / f"file{number}").write_bytes(bytes([number]) * 100)
        ref = (await rig.save(place, ref)).ref
    index = (await rig.body(ref)).index
    assert index is not None
    file = next(one for one in rig.files() if one.name in index.key)
    flip(file, index.size // 2)
    target = rig.new_place()

    with pytest.raises(Damaged, match=file.name):
        await rig.restore(ref, target, cached=False)
    assert list(target.iterdir()) == []


async def test_a_merge_does_not_carry_damage_on(rig) -> None:
    """What is to be written anew is checked first: the save fails, and names the pack."""
    place = rig.new_place()
    (place / "file").write_bytes(random.Random(1).randbytes(5_000))
    first = (await rig.save(place)).ref
    flip(next(one for one in rig.files() if one.name in first.pack), 1_000)

    async def save_often() -> None:
        ref = first
        for number in range(LOOSE_PACKS_MAX + 2):
            (place / f"file{number}").write_bytes(bytes([number]) * 100)
            ref = (await rig.save(place, ref)).ref

    with pytest.raises(Damaged, match=first.pack.rpartition("/")[2]):
        await save_often()
