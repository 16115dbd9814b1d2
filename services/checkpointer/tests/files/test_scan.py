"""What a scan sees, and what it never takes for unchanged."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkpointer.adapters.files.read import read_file
from checkpointer.adapters.files.scan import scan
from checkpointer.core.listings import RACY_NS, SECOND_NS, is_racy
from checkpointer.core.scans import Look

STRANGE_NAMES = [
    b"line\nfeed", b"\xff\xfe", b"n" * 255, b"back\\slash", b"-rf", b"trailing ", "é".encode(), "e\u0301".encode(),
    b"Readme", b"README", b"\xed\xa0\x80", b"*", b"...", b" ",
]  # fmt: skip


def test_names_are_bytes_of_any_kind(tree: Any) -> None:
    """Whatever the kernel takes; each is there once, as it is."""
    for name in STRANGE_NAMES:
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=tree.fd))

    (folder,) = tree.scan().folders
    assert [name for name, _ in folder.listing.sorted()] == sorted(STRANGE_NAMES)


@pytest.mark.usefixtures("tracked")
def test_an_unchanged_tree_has_equal_listings(tree: Any) -> None:
    """As a whole, directory by directory; parents come before their children."""
    for name in ("a/b/c", "a/d", "e", "f/g"):
        tree.write(name)
    seen = tree.settled()

    assert seen.folders == tree.scan().folders
    assert [folder.path for folder in seen.folders[:1]] == [b""]
    assert {folder.path for folder in seen.folders} == {b"", b"a", b"a/b", b"f"}
    assert (seen.entries, seen.data_bytes) == (7, 4)


@pytest.mark.usefixtures("tracked")
def test_a_rewrite_of_equal_size_with_its_time_set_back_is_seen(tree: Any) -> None:
    """User code sets any time but the one of the last change."""
    file, other = tree.write("file", b"before"), tree.write("other")
    before = tree.settled().folders[0]
    about = file.stat()
    file.write_bytes(b"behind")
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))

    after = tree.scan().folders[0]
    assert before.to_cache() != after.listing
    assert before.to_cache().settled_in(after.listing) == {other.name.encode()}


@pytest.mark.usefixtures("tracked")
def test_what_changed_just_before_the_scan_is_looked_at_again(tree: Any) -> None:
    """Another write may leave the same times where the clock ticks."""
    for _ in range(100):  # a machine that is busy lets the moment pass
        tree.write("fresh")
        seen = tree.scan(sync=False).folders[0]
        if seen.unsettled:
            break

    assert seen.unsettled == {b"fresh"}
    assert seen.to_cache() != seen.listing
    assert seen.to_cache().settled_in(seen.listing) == set()
    later = tree.settled().folders[0]
    assert later.to_cache() == later.listing


def test_what_is_racy_depends_on_how_finely_the_file_system_tells_time() -> None:
    """Twenty milliseconds; a second where it knows whole ones only. A stamp from the future is racy until its time."""
    now = 1_700_000_000 * SECOND_NS + 500_000_000

    assert is_racy(now - RACY_NS + 1, now)
    assert not is_racy(now - RACY_NS - 1, now)
    assert is_racy(now - 500_000_000, now)
    assert not is_racy(now - 1_500_000_000, now)
    assert is_racy(now + 3600 * SECOND_NS, now)


def test_a_writer_that_rewrites_at_once_is_never_missed(tree: Any) -> None:
    """Each round writes as many bytes as before, right behind the look: what is taken for unchanged is."""
    file, known, cached, missed = tree.write("file", b"%08d" % 0), b"", None, 0
    descriptor = os.open(file, os.O_WRONLY)
    for number in range(400):
        seen = tree.scan(sync=False).folders[0]
        if cached is None or not cached.settled_in(seen.listing):
            known = (
                read_file(tree.folders, b"file", lambda source: source.read(0, source.size)).value
                or b""
            )
        missed += known != b"%08d" % number
        cached = seen.to_cache()
        os.pwrite(descriptor, b"%08d" % (number + 1), 0)
    os.close(descriptor)

    assert missed == 0


@pytest.mark.usefixtures("tracked")
def test_a_write_through_a_mapping_is_seen(tree: Any) -> None:
    """No time moves for a page that is dirty already: all are written back before each scan."""
    file = tree.write("mapped", bytes(8192))
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 8192) as mapping:
        mapping[0:4] = b"aaaa"
        before = tree.settled().folders[0]
        mapping[0:4] = b"bbbb"
        after = tree.scan().folders[0]

    assert before.to_cache().settled_in(after.listing) == set()


def test_where_mapped_writes_leave_no_trace_every_file_is_read(memory_tree: Any) -> None:
    """On tmpfs no time ever tells."""
    memory_tree.write("file")
    time.sleep(2 * RACY_NS / SECOND_NS)
    seen = memory_tree.scan().folders[0]

    assert seen.unsettled == {b"file"}


def test_names_of_one_file_have_one_number_that_follows_from_its_path(
    make_tree: Callable[[str], Any], tmp_path: Any
) -> None:
    """Not from the inode: after a restore the same tree has the same numbers. A name elsewhere does not count."""
    trees = [make_tree("one"), make_tree("two")]
    for tree in trees:
        tree.write("filler-" + tree.path.name)
        file = tree.write("d/first")
        (tree.path / "second").hardlink_to(file)
        (tmp_path / f"elsewhere-{tree.path.name}").hardlink_to(tree.write("alone"))
    one, two = (tree.stats() for tree in trees)

    assert (
        one[b"d/first"].link
        == one[b"second"].link
        == two[b"d/first"].link
        == two[b"second"].link
        > 0
    )
    assert one[b"alone"].link == 0
    assert one[b"second"].inode != two[b"second"].inode


def test_files_that_were_read_since_they_were_written_are_told(tree: Any) -> None:
    """What a task reads first is restored first the next time; the checkpointer's own reads leave no trace."""
    for name in ("read", "unread"):
        tree.write(name)
        os.utime(tree.path / name, (1, 1))
    for path in (b"read", b"unread"):
        read_file(tree.folders, path, lambda source: source.read(0, 1))
    (tree.path / "read").read_bytes()
    if (tree.path / "read").stat().st_atime == 1:
        assert "noatime" in Path("/proc/self/mounts").read_text()
        return

    assert tree.scan().folders[0].accessed == {b"read"}


def test_a_scan_ends_where_its_caller_gives_up(tree: Any) -> None:
    """After the directory at hand."""
    for number in range(5):
        tree.write(f"{number}/file")

    class Enough(Exception):
        pass

    def give_up(entries: int, _bytes: int) -> None:
        if entries > 5:
            raise Enough

    with pytest.raises(Enough):
        scan(tree.fd, Look(), give_up)
