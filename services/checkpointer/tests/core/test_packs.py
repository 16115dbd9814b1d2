"""Frames, packs, index and body: what is written is what is read, and what lies is refused before memory is taken."""

from __future__ import annotations

import random
import struct

import msgspec
import pytest
import zstandard

from checkpointer.core import bounds
from checkpointer.core.chunks import (
    Cutter,
    Rule,
)
from checkpointer.core.entries import (
    BY_CONTENT,
    CHUNKS,
    DIRECTORY,
    FILE,
    Entry,
    encode_node,
)
from checkpointer.core.frames import DATA, META, Codec, Frame
from checkpointer.core.ids import make_id
from checkpointer.core.index import Index
from checkpointer.core.packs import MAGIC, TRAILER, PackBuilder, PackInfo, read_contents
from checkpointer.core.snapshot import (
    VERSION,
    HotPath,
    Snapshot,
    decode_snapshot,
    encode_snapshot,
)
from shared.errors import Damaged, InvalidMessage, LimitExceeded


def make_pack(codec: Codec) -> tuple[bytes, int, list[bytes]]:
    """Return a pack of two frames, its tail's length and its chunks."""
    chunks = [b"line\n" * 900, bytes(range(256)) * 4, random.Random(3).randbytes(3_000)]
    pack = PackBuilder()
    pack.add(codec.seal(DATA, list(chunks[:2]), [make_id(one) for one in chunks[:2]]))
    pack.add(codec.seal(META, [chunks[2]], [make_id(chunks[2])]))
    return *pack.seal(codec), chunks


def test_chunks_are_found_in_a_pack_and_through_an_index_object() -> None:
    """Footer, index in memory, index object, index without a pack: all know the same places."""
    codec = Codec()
    data, tail, chunks = make_pack(codec)
    contents = read_contents(data[-tail:], len(data), codec, "key")
    index = Index()
    index.add(PackInfo("t/s/key", len(data), tail), contents)
    stored, one = index.encode(codec)

    for known in (index, Index.decode(stored, one, codec, "key"), index.without(set())):
        assert len(known) == 3
        for chunk in chunks:
            place = known.find(make_id(chunk))
            assert place is not None
            info = known.frame(place.frame)
            packed = data[info.offset : info.offset + info.stored_bytes]
            raw = codec.unpack(packed, info.raw_bytes, "key")
            assert bytes(raw[place.at : place.at + place.length]) == chunk
        assert known.find(bytes(32)) is None
    assert len(index.without({0})) == 0


def test_random_data_is_stored_as_it_is() -> None:
    """Compression that does not pay costs time at each restore."""
    codec, noise = Codec(), random.Random(4).randbytes(200_000)

    assert codec.compress(noise) is noise
    assert len(codec.compress(b"text " * 40_000)) < 2_000


def test_a_frame_that_does_not_unpack_to_what_went_in_is_never_uploaded() -> None:
    """Compressors have had such faults: each new frame is unpacked and compared with what its ids were made of."""
    codec, raw = Codec(), b"a" * 9_000
    good = codec.seal(DATA, [raw], [make_id(raw)])
    codec.check(good, raw)
    packed = zstandard.compress(b"a" * 8_999 + b"b")

    with pytest.raises(Damaged, match="new frame"):
        codec.check(Frame(DATA, packed, 9_000, good.ids, good.lengths), raw)
    codec.compress = lambda _raw: packed  # type: ignore[method-assign]  # a broken compressor
    with pytest.raises(Damaged, match="new frame"):
        codec.seal(DATA, [raw], [make_id(raw)])


def test_bombs_are_refused_before_memory_is_taken() -> None:
    """A frame that is, or says it is, larger than any writer makes; one that says nothing; a window too wide."""
    codec = Codec()
    bomb = zstandard.compress(bytes(bounds.FRAME_RAW_BYTES_MAX + 1))
    wide = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters.from_level(
            1, window_log=27, enable_ldm=True
        )
    )
    streamed = wide.compressobj()
    unsized = streamed.compress(bytes(100_000)) + streamed.flush()

    with pytest.raises(LimitExceeded, match="where: a frame of 4194305 raw bytes, at most 4194304"):
        codec.unpack(bomb, bounds.FRAME_RAW_BYTES_MAX + 1, "where")
    with pytest.raises(Damaged, match="4194305 bytes, 100 promised"):
        codec.unpack(bomb, 100, "where")
    with pytest.raises(
        LimitExceeded, match="where: a zstd window of 134217728 bytes, at most 8388608"
    ):
        codec.unpack(unsized, 100_000, "where")
    with pytest.raises(Damaged, match="no zstd frame"):
        codec.unpack(b"junk" * 9, 100, "where")


def forge(footer: list[object], raw_bytes: int | None = None) -> tuple[bytes, int]:
    """Return the tail of a pack with this footer, its hash right, and the pack's size."""
    raw = msgspec.msgpack.encode(footer)
    stored = raw if raw_bytes is None else zstandard.compress(raw)
    trailer = TRAILER.pack(len(stored), raw_bytes or len(raw), make_id(stored), b"ASWPEND\x01")
    frames = sum(struct.unpack(f"<{len(footer[1]) // 4}I", footer[1]))
    return stored + trailer, len(MAGIC) + frames + len(stored) + TRAILER.size


def numbers(*values: int) -> bytes:
    """Return a column."""
    return struct.pack(f"<{len(values)}I", *values)


@pytest.mark.parametrize(
    ("footer", "error"),
    [
        ([b"\0", numbers(10), numbers(20), numbers(1), numbers(20), bytes(32)], None),
        ([b"\0", numbers(10), numbers(20), numbers(1), numbers(19), bytes(32)], "add up"),
        ([b"\0", numbers(10), numbers(20), numbers(2), numbers(20), bytes(32)], "other frames"),
        ([b"\0", numbers(10), numbers(20), numbers(1), numbers(20), bytes(31)], "columns"),
        ([b"\0\0", numbers(10), numbers(20), numbers(1), numbers(20), bytes(32)], "columns"),
        ([b"\7", numbers(10), numbers(20), numbers(1), numbers(20), bytes(32)], "unknown kind"),
        ([b"\0", numbers(10), numbers(1 << 30), numbers(1), numbers(1 << 30), bytes(32)], "at most 4194304"),
        ([b"\0" * 65_537, numbers(*[0] * 65_537), numbers(*[0] * 65_537), numbers(*[0] * 65_537), b"", b""], "65537 frames"),
        (["no", b"", b"", b"", b"", b""], "can not be read"),
    ],
)  # fmt: skip
def test_a_footer_that_lies_is_refused(footer, error) -> None:
    """Its own hash is right: whoever may write to the store may forge it, and gets an error that names the pack."""
    tail, size = forge(footer)
    if error is None:
        assert read_contents(tail, size, Codec(), "key").stored == (10,)
        return

    with pytest.raises((Damaged, LimitExceeded), match=f"key: .*{error}"):
        read_contents(tail, size, Codec(), "key")


def test_a_footer_that_unpacks_to_too_much_is_refused() -> None:
    """Said before it is done."""
    footer = [b"", b"", b"", b"", b"", b""]
    tail, size = forge(footer, raw_bytes=bounds.FOOTER_RAW_BYTES_MAX + 1)

    with pytest.raises(LimitExceeded, match="key: a footer of 16777217 bytes"):
        read_contents(tail, size, Codec(), "key")


SNAPSHOT = Snapshot(
    version=VERSION, session="01J8ZQ5XKQJ9V3N7C2B4D6F8G0", tenant="acme", epoch=3, at_ms=1_700_000_000_000, entries=1,
    root=Entry(b"", DIRECTORY, 0, 0, 0, 5, 40, bytes(range(32)), b"", CHUNKS), packs=(PackInfo("acme/s/1", 1_000, 200),),
    hot=(HotPath(b"a", 0),), torn=(b"\xff",),
)  # fmt: skip


def test_a_body_is_read_as_it_was_written_and_no_other_by_its_name() -> None:
    """The id vouches for every byte; later versions are named as such."""
    body, one = encode_snapshot(SNAPSHOT)
    later, its_id = encode_snapshot(msgspec.structs.replace(SNAPSHOT, version=VERSION + 1))

    assert decode_snapshot(body, one.hex(), "key") == SNAPSHOT
    with pytest.raises(Damaged, match="key: the body of snapshot"):
        decode_snapshot(later, one.hex(), "key")
    with pytest.raises(InvalidMessage, match=r"key: snapshot .* has format 2"):
        decode_snapshot(later, its_id.hex(), "key")
    with pytest.raises(LimitExceeded, match="key: a body of"):
        decode_snapshot(bytes(bounds.SNAPSHOT_BYTES_MAX + 1), one.hex(), "key")
    with pytest.raises(LimitExceeded, match="8193 packs"):
        encode_snapshot(msgspec.structs.replace(SNAPSHOT, packs=SNAPSHOT.packs * 8_193))


def test_the_bytes_of_the_format_are_what_they_were() -> None:
    """Old snapshots stay readable, and equal trees have equal ids: a change here needs a new version."""
    codec = Codec()
    node = encode_node([Entry(b"a", FILE, 0o644, 0, 1, -5, 3, b"abc", xattrs=((b"user.x", b"1"),))])
    one = encode_snapshot(SNAPSHOT)[1]
    pack = PackBuilder()
    pack.add(codec.seal(META, [node], [make_id(node)]))
    data, tail = pack.seal(codec)

    assert node.hex() == GOLDEN_NODE
    assert one.hex() == GOLDEN_BODY
    assert (data[: len(MAGIC)], make_id(data).hex(), tail) == (
        b"ASWPACK\x01",
        GOLDEN_PACK,
        GOLDEN_TAIL,
    )
    assert [
        len(piece)
        for piece in Cutter().pieces(
            Rule(BY_CONTENT, 32 * 1024), iter([random.Random(5).randbytes(200_000)])
        )
    ] == GOLDEN_CUTS


GOLDEN_NODE = "919dc4016101cd01a40001fb03c403616263c4000000009192c406757365722e78c40131"
GOLDEN_BODY = "f984240854e4059aa2fb5c562f5a63e9fe1750ca3e63198642734e45ff100529"
GOLDEN_PACK = "88753b7be67b060e34d7be17fef16046cfcc6819973a35c451d4a0e987e8d9e3"
GOLDEN_TAIL = 110
GOLDEN_CUTS = [34018, 90704, 36835, 38443]
