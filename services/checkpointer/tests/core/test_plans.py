"""What differs between two trees, what a restore brings first and in which requests, which packs are written anew."""

from __future__ import annotations

from checkpointer.core.content import Piece
from checkpointer.core.entries import (
    CHUNKS,
    DIRECTORY,
    FILE,
    ZERO_ID,
    Entry,
    decode_node,
    encode_node,
)
from checkpointer.core.fetch import GAP_BYTES_MAX, RANGE_BYTES_MAX, Part, make_ranges
from checkpointer.core.frames import DATA
from checkpointer.core.hot import (
    ACCESSED_MAX,
    GENERATIONS,
    PATHS_MAX,
    choose_hot,
    is_hot_name,
    next_hot,
)
from checkpointer.core.ids import make_id
from checkpointer.core.index import Index
from checkpointer.core.merge import choose_rewritten, group_by_pack
from checkpointer.core.packs import Contents, PackInfo
from checkpointer.core.snapshot import HotPath
from checkpointer.core.trees import Change, differ, walk

Tree = dict[str, "str | Tree"]


class Nodes:
    """Trees made of dicts: text is a file's content."""

    def __init__(self) -> None:
        """Have none."""
        self.nodes: dict[bytes, bytes] = {}
        self.fetched = 0

    def add(self, tree: Tree, name: bytes = b"") -> Entry:
        """Keep a tree; return its root's entry."""
        entries = []
        for key in sorted(tree):
            value = tree[key]
            if isinstance(value, str):
                data = value.encode()
                entries.append(Entry(key.encode(), FILE, 0o644, 0, 0, 0, len(data), data))
            else:
                entries.append(self.add(value, key.encode()))
        node = encode_node(entries)
        self.nodes[make_id(node)] = node
        return Entry(name, DIRECTORY, 0o755, 0, 0, 0, len(node), make_id(node), b"", CHUNKS)

    def fetch(self, entry: Entry, _path: bytes) -> list[Entry]:
        """Return a directory's entries."""
        self.fetched += 1
        return decode_node(self.nodes[entry.content], "here")


def test_a_difference_names_what_was_added_changed_and_removed() -> None:
    """With sizes before and after; a directory with all that was in it."""
    trees = Nodes()
    before = trees.add(
        {"same": "x", "old": {"a": "1", "b": {"c": "22"}}, "file": "abc", "turned": "text"}
    )
    after = trees.add(
        {"same": "x", "new": {"d": "4444"}, "file": "abcde", "turned": {"inside": "1"}}
    )

    assert sorted(differ(before, after, trees.fetch)) == [
        Change(b"file", "changed", FILE, 3, 5),
        Change(b"new", "added", DIRECTORY, 0, 0),
        Change(b"new/d", "added", FILE, 0, 4),
        Change(b"old", "removed", DIRECTORY, 0, 0),
        Change(b"old/a", "removed", FILE, 1, 0),
        Change(b"old/b", "removed", DIRECTORY, 0, 0),
        Change(b"old/b/c", "removed", FILE, 2, 0),
        Change(b"turned", "changed", DIRECTORY, 4, 0),
        Change(b"turned/inside", "added", FILE, 0, 1),
    ]


def test_what_is_equal_is_not_looked_into() -> None:
    """A difference of two large trees costs what differs."""
    trees = Nodes()
    large: Tree = {f"d{n}": {"file": "x"} for n in range(50)}
    before = trees.add({"large": large, "file": "1", "deep": {"er": {"file": "1"}}})
    after = trees.add({"large": large, "file": "1", "deep": {"er": {"file": "2"}}})

    assert list(differ(before, after, trees.fetch)) == [
        Change(b"deep/er/file", "changed", FILE, 1, 1)
    ]
    assert trees.fetched == 6
    assert len(list(walk(after, trees.fetch))) == 54


def test_a_changed_file_stays_hot_for_some_snapshots() -> None:
    """The newest first, so that what does not fit is what is oldest."""
    hot = next_hot((), [b"first"])
    for number in range(GENERATIONS - 1):
        hot = next_hot(hot, [b"n%d" % number])

    assert hot[0] == HotPath(b"n3", 0)
    assert hot[-1] == HotPath(b"first", GENERATIONS - 1)
    assert b"first" not in {one.path for one in next_hot(hot, [])}
    assert [(one.path, one.age) for one in next_hot((), [b"b"], [b"a", b"b"])] == [
        (b"b", 0),
        (b"a", 1),
    ]
    assert next_hot((), [], [b"%06d" % n for n in range(ACCESSED_MAX + 1)]) == ()
    assert len(next_hot((), [b"%06d" % n for n in range(PATHS_MAX + 5)])) == PATHS_MAX


def test_what_tools_read_first_is_restored_first() -> None:
    """Git's own files but its objects, settings near the root, what changed; nothing large."""
    assert is_hot_name(b".git/index")
    assert is_hot_name(b"sub/.git/refs/heads/main")
    assert not is_hot_name(b".git/objects/pack/pack-1.pack")
    assert is_hot_name(b"app/package.json")
    assert not is_hot_name(b"app/node_modules/lodash/package.json")
    sizes = [(b"a", 10), (b"package.json", 10), (b"b", 10), (b".git/HEAD", 10_000_000)]

    assert choose_hot(sizes, [HotPath(b"b", 1)]) == {b"b", b"package.json"}


def index_of(*packs: list[tuple[bytes, int]]) -> Index:
    """Return an index of packs whose frames hold one chunk each: (id, stored bytes)."""
    index = Index()
    for number, frames in enumerate(packs):
        sizes = tuple(size for _, size in frames)
        offsets = tuple(8 + sum(sizes[:at]) for at in range(len(sizes)))
        contents = Contents(
            bytes([DATA] * len(frames)), offsets, sizes, sizes, (1,) * len(frames), sizes,
            b"".join(one for one, _ in frames),
        )  # fmt: skip
        index.add(PackInfo(f"t/s/{number}", 8 + sum(sizes) + 100, 100), contents)
    return index


def test_a_restore_reads_small_gaps_along_and_skips_large_ones() -> None:
    """A request costs more than a few bytes; zeros cost none."""
    ids = [make_id(b"%d" % n) for n in range(5)]
    sizes = [1_000, GAP_BYTES_MAX, 1_000, GAP_BYTES_MAX + 1, 1_000]
    index = index_of(list(zip(ids, sizes, strict=True)), [(make_id(b"x"), RANGE_BYTES_MAX)])
    wanted: list[Piece] = [
        (ids[4], 1_000),
        (ZERO_ID, 7),
        (ids[0], 1_000),
        (ids[2], 1_000),
        (make_id(b"x"), RANGE_BYTES_MAX),
    ]

    ranges = make_ranges([Part(3, b"path", 50, wanted)], index)

    assert [(one.pack, one.start, one.length) for one in ranges] == [
        (0, 8, 2_000 + GAP_BYTES_MAX),
        (0, 8 + 2_000 + 2 * GAP_BYTES_MAX + 1, 1_000),
        (1, 8, RANGE_BYTES_MAX),
    ]
    targets = [(t.file, t.offset) for one in ranges for frame in one.frames for t in frame.targets]
    assert targets == [(3, 1_057), (3, 2_057), (3, 50), (3, 3_057)]


def test_small_dead_and_mostly_dead_packs_are_written_anew() -> None:
    """Not a full one of which most is needed; never more bytes at once than is bearable."""
    a, b, c, d = (make_id(name) for name in (b"a", b"b", b"c", b"d"))
    full, small, dead, half = (
        [(a, 9_000)],
        [(b, 900)],
        [(c, 9_000)],
        [(d, 4_000), (make_id(b"e"), 5_000)],
    )
    index = index_of(full, small, dead, half)
    live = group_by_pack([a, b, d, make_id(b"new")], index)

    assert choose_rewritten(index, live, 8_000) == {1, 2, 3}
