"""Nodes, list nodes and cuts: what is written is what is read, and what no honest writer makes is refused."""

from __future__ import annotations

import random
import struct

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpointer.core import bounds, entries
from checkpointer.core.chunks import (
    IN_PLACE_BYTES_MIN,
    SQLITE_MAGIC,
    WINDOW_BYTES,
    Cutter,
    Rule,
    average_of,
    choose,
    note_change,
)
from checkpointer.core.content import describe, expand
from checkpointer.core.entries import (
    BY_CONTENT,
    CHANGING,
    CHUNKS,
    DIRECTORY,
    FILE,
    FIXED,
    SYMLINK,
    WHOLE,
    ZERO_ID,
    Entry,
    decode_node,
    encode_node,
)
from checkpointer.core.ids import make_id
from shared.errors import Damaged, LimitExceeded

NAMES = st.binary(min_size=1, max_size=12).filter(lambda name: not entries.is_bad_name(name))


@st.composite
def listings(draw: st.DrawFn) -> list[Entry]:
    """Draw the entries of a directory."""
    made = []
    for name in sorted(draw(st.sets(NAMES, max_size=8))):
        kind = draw(st.sampled_from(sorted(entries.KINDS)))
        text = draw(st.binary(min_size=1, max_size=20)) if kind in {FILE, SYMLINK} else b""
        one = Entry(
            name,
            kind,
            draw(st.integers(0, 0o7777)),
            0,
            draw(st.integers(0, 9)),
            draw(st.integers(-(2**60), 2**60)),
        )
        if kind == DIRECTORY or (kind == FILE and draw(st.booleans())):
            one = msgspec.structs.replace(
                one,
                size=draw(st.integers(0, 2**30)),
                content=draw(st.binary(min_size=32, max_size=32)),
                form=CHUNKS,
            )
        else:
            one = msgspec.structs.replace(one, size=len(text), content=text)
        made.append(one)
    return made


@given(listings())
def test_a_node_is_read_as_it_was_written(made) -> None:
    """Also with names that are no text, and times before 1970."""
    assert decode_node(encode_node(made), "here") == made


@given(listings(), st.data())
def test_a_changed_node_is_refused_or_read_but_never_crashes(made, data) -> None:
    """Whatever stands there: entries whose names are sound, or an error that names the place."""
    node = bytearray(encode_node(made))
    node[data.draw(st.integers(0, len(node) - 1))] = data.draw(st.integers(0, 255))
    try:
        read = decode_node(bytes(node), "here")
    except (Damaged, LimitExceeded) as exc:
        assert "here" in str(exc)  # noqa: PT017 - either outcome is right
    else:
        assert not any(entries.is_bad_name(entry.name) for entry in read)


@pytest.mark.parametrize(
    "bad",
    [
        [Entry(b"..", FILE, 0, 0, 0, 0)],
        [Entry(b".", FILE, 0, 0, 0, 0)],
        [Entry(b"", FILE, 0, 0, 0, 0)],
        [Entry(b"a/b", FILE, 0, 0, 0, 0)],
        [Entry(b"a\0b", FILE, 0, 0, 0, 0)],
        [Entry(b"x" * 256, FILE, 0, 0, 0, 0)],
        [Entry(b"a", FILE, 0, 0, 0, 0), Entry(b"a", DIRECTORY, 0, 0, 0, 0)],
        [Entry(b"b", FILE, 0, 0, 0, 0), Entry(b"a", FILE, 0, 0, 0, 0)],
        [Entry(b"a", 6, 0, 0, 0, 0)],
        [Entry(b"a", FILE, 0o10000, 0, 0, 0)],
        [Entry(b"a", FILE, 0, 0, 0, 0, 5, b"four")],
        [Entry(b"a", DIRECTORY, 0, 0, 0, 0, 4, b"node")],
        [Entry(b"a", FILE, 0, 0, 0, 0, 4, bytes(31), b"", CHUNKS)],
        [Entry(b"a", FILE, 0, 0, 0, 0, 4, bytes(64), b"", CHUNKS)],
        [Entry(b"a", FILE, 0, 0, 0, 0, 4, bytes(64), struct.pack("<QQ", 2, 3), CHUNKS)],
        [Entry(b"a", SYMLINK, 0, 0, 0, 0, 4, bytes(32), b"", CHUNKS)],
        [Entry(b"a", FILE, 0, 0, 0, 0, -1)],
        [Entry(b"a", FILE, 0, 0, 0, 0, xattrs=((b"user.a", bytes(70_000)),))],
    ],
)  # fmt: skip
def test_a_node_that_no_honest_writer_makes_is_refused(bad) -> None:
    """Each would leave its directory, hide a name, make a device, or lie about a size."""
    with pytest.raises((Damaged, LimitExceeded), match="here"):
        decode_node(msgspec.msgpack.encode(bad), "here")


def test_a_node_that_promises_too_much_is_refused_before_it_is_read() -> None:
    """Four bytes may promise four billion entries."""
    with pytest.raises(LimitExceeded, match="500000"):
        decode_node(b"\xdd\xff\xff\xff\xff", "here")
    with pytest.raises(LimitExceeded, match="node"):
        decode_node(memoryview(bytes(bounds.NODE_BYTES_MAX + 1)), "here")
    one = encode_node([Entry(b"a", FILE, 0, 0, 0, 0)])
    with pytest.raises(Damaged, match="here"):
        decode_node(one[:-1] + b"\xdd\xff\xff\xff\xff", "here")


@settings(max_examples=20)
@given(st.integers(1, 3), st.integers(0, 2000))
def test_chunks_come_back_through_list_nodes(levels, extra) -> None:
    """Zeros among them, whatever the number of levels."""
    count = min(extra + 1, 1500) if levels == 1 else extra + 1_100
    pieces = [(ZERO_ID, 7) if n % 5 == 0 else (make_id(b"%d" % n), n % 9 + 1) for n in range(count)]
    lists: dict[bytes, bytes] = {}

    def keep(node: bytes) -> bytes:
        lists[make_id(node)] = node
        return make_id(node)

    made = describe(pieces, FIXED, keep)
    entry = Entry(
        b"a", FILE, 0, 0, 0, 0, made.size, made.content, made.lengths, made.form, made.cut
    )
    entries.check_content(entry, "here")

    assert list(expand(entry, lists.__getitem__, "here")) == pieces
    assert (made.form > CHUNKS) == (count > bounds.LIST_CHUNKS)


def test_a_list_node_that_lies_is_refused() -> None:
    """It adds up to what the level above promises, or is none."""
    lists: dict[bytes, bytes] = {}

    def keep(node: bytes) -> bytes:
        lists[make_id(node)] = node
        return make_id(node)

    pieces = [(make_id(b"%d" % n), 5) for n in range(3_000)]
    made = describe(pieces, FIXED, keep)
    entry = Entry(b"a", FILE, 0, 0, 0, 0, made.size, made.content, made.lengths, made.form)
    first = next(iter(lists))
    other = msgspec.msgpack.encode([bytes(32), struct.pack("<Q", 6)])

    for node in (other, b"junk", lists[first][:-1], bytes(60_000)):
        lists[first] = node
        with pytest.raises((Damaged, LimitExceeded), match="here"):
            list(expand(entry, lists.__getitem__, "here"))


def windows(data: bytes) -> list[bytes]:
    """Cut data as a file is read."""
    return [data[at : at + WINDOW_BYTES] for at in range(0, len(data), WINDOW_BYTES)]


@pytest.mark.parametrize(
    "rule", [Rule(FIXED), Rule(BY_CONTENT, 32 * 1024), Rule(BY_CONTENT, 1 << 20)]
)
def test_cuts_do_not_depend_on_how_a_file_is_read(rule) -> None:
    """Windows leave no trace in the chunks, which hold all bytes in order, within their bounds."""
    data = random.Random(1).randbytes(2 * WINDOW_BYTES + 12_345)
    whole = [bytes(piece) for piece in Cutter().pieces(rule, iter([data]))]

    assert [bytes(piece) for piece in Cutter().pieces(rule, iter(windows(data)))] == whole
    assert b"".join(whole) == data
    assert max(map(len, whole)) <= bounds.FRAME_RAW_BYTES_MAX


def test_an_insert_moves_few_chunks() -> None:
    """Text that moved is found again."""
    data = random.Random(2).randbytes(4 << 20)
    before = {bytes(one) for one in Cutter().pieces(Rule(BY_CONTENT, 32 * 1024), iter([data]))}
    after = list(Cutter().pieces(Rule(BY_CONTENT, 32 * 1024), iter([b"inserted" + data])))

    assert sum(bytes(one) not in before for one in after) <= 3


def test_files_are_cut_by_what_they_are() -> None:
    """Small ones not at all, databases every 16 KiB, very large ones coarsely, by powers of two."""
    assert choose(32 * 1024, SQLITE_MAGIC) == Rule(WHOLE)
    assert choose(40_000, SQLITE_MAGIC) == Rule(FIXED)
    assert choose(40_000, b"text") == Rule(BY_CONTENT, 32 * 1024)
    assert choose(40_000, b"text", FIXED) == choose(40_000, b"text", CHANGING) == Rule(FIXED)
    assert [average_of(size << 30) >> 10 for size in (0, 1, 2, 3, 8, 16, 32)] == [
        32,
        64,
        128,
        128,
        512,
        1024,
        1024,
    ]


def test_a_file_that_changes_in_place_is_cut_at_fixed_places_the_next_time() -> None:
    """Not one whose mode alone changed, nor one that grew, nor a small one."""
    size, rule = IN_PLACE_BYTES_MIN, Rule(BY_CONTENT, 32 * 1024)
    old = Entry(b"a", FILE, 0, 0, 0, 0, size, bytes(32), b"", CHUNKS, BY_CONTENT)
    other = bytes(31) + b"\1"

    assert note_change(rule, old, size, other) == CHANGING
    assert note_change(rule, old, size, old.content) == BY_CONTENT
    assert note_change(rule, old, size + 1, other) == BY_CONTENT
    assert note_change(rule, msgspec.structs.replace(old, size=9), 9, other) == BY_CONTENT
