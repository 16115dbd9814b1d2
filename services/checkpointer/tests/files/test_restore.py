"""What a restore makes of a tree, to the last bit of its metadata."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkpointer.adapters.files import linux
from checkpointer.adapters.files.read import read_link
from checkpointer.adapters.files.restore import TreeWriter
from checkpointer.adapters.files.room import check_empty, check_room, clear
from checkpointer.core.entries import DIRECTORY, FIFO, FILE, SOCKET, SYMLINK, Entry
from shared import limits
from shared.errors import Conflict, LimitExceeded
from shared.testing.ordinary import ORDINARY_UID

MTIME_NS = 1_600_000_000_123_456_789


def entry(name: bytes, kind: int = FILE, mode: int = 0o644, **more: Any) -> Entry:
    """Return an entry as a decoder gives it."""
    return Entry(name, kind, mode, 0, 0, MTIME_NS, **more)


def make(
    writer: TreeWriter, name: bytes, data: bytes = b"data", mode: int = 0o644, **more: Any
) -> None:
    """Restore one file in the root."""
    writer.write_file(b"", entry(name, mode=mode, size=len(data), **more), data)


def fill(writer: TreeWriter, folder: bytes, count: int) -> None:
    """Restore so many empty files."""
    for number in range(count):
        writer.write_file(folder, entry(b"%d" % number), b"")


@pytest.mark.parametrize("mode", [0o644, 0o755, 0o600, 0o400, 0o444, 0o664, 0o777, 0o000, 0o1777])
@pytest.mark.parametrize("gate", [False, True])
def test_a_file_has_its_content_mode_and_time(
    writer: TreeWriter, tree: Any, mode: int, gate: bool
) -> None:
    """Whatever the process's own mask, before the gate opens and after."""
    if gate:
        writer.open_gate()
    make(writer, b"file", b"content", mode)

    about = (tree.path / "file").stat()
    assert stat.S_IMODE(about.st_mode) == mode
    assert about.st_mtime_ns == MTIME_NS
    assert list(tree.stats()) == [b"file"]
    (tree.path / "file").chmod(0o600)  # an ordinary user, too, reads it then
    assert (tree.path / "file").read_bytes() == b"content"
    assert (writer.tally.files, writer.tally.content_bytes, writer.tally.metadata_refused) == (
        1,
        7,
        0,
    )


def test_a_tree_of_all_kinds_is_restored(writer: TreeWriter, tree: Any) -> None:
    """Directories with their own times last, links as data, pipes and sockets, attributes."""
    folders = {
        b"a": entry(b"a", DIRECTORY, 0o555, xattrs=((b"user.x", b"1"),)),
        b"a/b": entry(b"b", DIRECTORY, 0o700),
    }
    for path, folder in folders.items():
        writer.make_folder(path, folder)
    writer.write_file(b"a/b", entry(b"f", mode=0o444, size=3, xattrs=((b"user.x", b"\0"),)), b"abc")
    writer.make_leaf(b"a", entry(b"link", SYMLINK, 0o777, size=12, content=b"/etc/\xff/../x"))
    writer.make_leaf(b"a", entry(b"pipe", FIFO, 0o640))
    writer.make_leaf(b"a", entry(b"socket", SOCKET, 0o600))
    for path, folder in folders.items():
        writer.finish_folder(path, folder)
    writer.finish_folder(b"", entry(b"", DIRECTORY, 0o000))

    kinds = {path: stat.S_IFMT(one.mode) for path, one in tree.stats().items()}
    assert kinds == {
        b"a": stat.S_IFDIR, b"a/b": stat.S_IFDIR, b"a/b/f": stat.S_IFREG, b"a/link": stat.S_IFLNK,
        b"a/pipe": stat.S_IFIFO, b"a/socket": stat.S_IFSOCK,
    }  # fmt: skip
    assert {one.mtime_ns for one in tree.stats().values()} == {MTIME_NS}
    assert tree.path.stat().st_mtime_ns == MTIME_NS
    assert stat.S_IMODE(tree.path.stat().st_mode) != 0, "the root's mode is the node's"
    assert stat.S_IMODE((tree.path / "a").stat().st_mode) == 0o555
    assert stat.S_IMODE((tree.path / "a/pipe").stat().st_mode) == 0o640
    assert read_link(tree.folders, b"a/link") == b"/etc/\xff/../x"
    assert os.getxattr(tree.path / "a", "user.x") == b"1"
    assert os.getxattr(tree.path / "a/b/f", "user.x") == b"\0"
    assert writer.tally.metadata_refused == 0


def test_nothing_restored_runs_with_anothers_rights(
    writer: TreeWriter, tree: Any, root_only: None
) -> None:
    """No set-user and set-group bits, no capabilities, nothing of `trusted`; what was left out is counted."""
    rights = (
        (b"security.capability", bytes.fromhex("0100000200200000000000000000000000000000")),
        (b"trusted.x", b"1"),
    )
    make(writer, b"program", mode=0o6755, xattrs=rights)
    writer.make_folder(b"folder", entry(b"folder", DIRECTORY, 0o6777))
    writer.finish_folder(b"folder", entry(b"folder", DIRECTORY, 0o6777))

    assert stat.S_IMODE((tree.path / "program").stat().st_mode) == 0o755
    assert stat.S_IMODE((tree.path / "folder").stat().st_mode) == 0o777
    assert os.listxattr(tree.path / "program") == []
    assert writer.tally.metadata_refused == 2


def test_all_belongs_to_the_workspaces_owner(
    tree: Any, make_writer: Callable[[], TreeWriter], root_only: None
) -> None:
    """Whoever owned it where it was saved."""
    os.chown(tree.fd, 4321, 1234)
    writer = make_writer()
    writer.make_folder(b"a", entry(b"a", DIRECTORY, 0o755))
    writer.write_file(b"a", Entry(b"f", FILE, 0o644, 1, 1, MTIME_NS, 1), b"x", [(b"", b"other")])
    for kind, name in ((SYMLINK, b"l"), (FIFO, b"p"), (SOCKET, b"s")):
        writer.make_leaf(b"a", entry(name, kind, content=b"t" if kind == SYMLINK else b""))
    writer.finish_folder(b"a", entry(b"a", DIRECTORY, 0o755))

    assert {(one.uid, one.gid) for one in tree.stats().values()} == {(4321, 1234)}
    assert len(tree.stats()) == 6
    assert {one.mtime_ns for one in tree.stats().values()} == {MTIME_NS}


@pytest.mark.parametrize("gate", [False, True])
def test_an_ordinary_user_restores_its_own(
    tree: Any, make_writer: Callable[[], TreeWriter], as_user: Callable[..., Any], gate: bool
) -> None:
    """Read-only files and directories too: they are closed when they are full."""
    os.chown(tree.fd, ORDINARY_UID, ORDINARY_UID)
    with as_user():
        writer = make_writer()
        writer.make_folder(b"a", entry(b"a", DIRECTORY, 0o000))
        if gate:
            writer.open_gate()
        writer.write_file(
            b"a",
            entry(b"f", mode=0o000, size=1, xattrs=((b"user.x", b"1"),)),
            b"x",
            [(b"", b"other")],
        )
        writer.make_leaf(b"a", entry(b"p", FIFO, 0o200))
        writer.finish_folder(b"a", entry(b"a", DIRECTORY, 0o000))

    assert {path: stat.S_IMODE(one.mode) for path, one in tree.stats().items()} == {
        b"a": 0, b"a/f": 0, b"other": 0, b"a/p": 0o200,
    }  # fmt: skip
    assert os.getxattr(tree.path / "other", "user.x") == b"1"
    assert (writer.tally.metadata_refused, writer.tally.links_copied) == (0, 0)


def test_what_may_not_be_set_is_counted_and_stops_nothing(
    tree: Any, make_writer: Callable[[], TreeWriter], as_user: Callable[..., Any]
) -> None:
    """In a directory of somebody else's, of which the user has the right to write."""
    os.chown(tree.fd, ORDINARY_UID + 1, ORDINARY_UID + 1)
    tree.path.chmod(0o777)
    with as_user():
        writer = make_writer()
        make(writer, b"file")
        writer.make_leaf(b"", entry(b"link", SYMLINK, content=b"t"))

    assert (tree.path / "file").read_bytes() == b"data"
    assert writer.tally.metadata_refused == 2


def test_holes_stay_holes(writer: TreeWriter, tree: Any) -> None:
    """Also the one at the end; pieces come in any order."""
    size = 64 << 20
    with writer.open_file(b"", entry(b"sparse", size=size)) as sink:
        sink.write(32 << 20, b"middle")
        sink.write(0, b"begin")

    file = tree.path / "sparse"
    assert file.stat().st_size == size
    assert file.stat().st_blocks * 512 < 1 << 20
    content = file.read_bytes()
    assert content.strip(b"\0").startswith(b"begin")
    assert content[32 << 20 :].rstrip(b"\0") == b"middle"


@pytest.mark.parametrize("gate", [False, True])
def test_names_of_one_file_are_one_file(writer: TreeWriter, tree: Any, gate: bool) -> None:
    """In several directories."""
    writer.make_folder(b"a", entry(b"a", DIRECTORY))
    if gate:
        writer.open_gate()
    writer.write_file(b"a", entry(b"one", size=4), b"data", [(b"", b"two"), (b"a", b"three")])

    stats = tree.stats()
    assert len({stats[path].inode for path in (b"a/one", b"two", b"a/three")}) == 1
    assert stats[b"two"].link > 0


def test_where_no_more_names_are_taken_each_is_a_file(
    writer: TreeWriter, tree: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ext4 ends at 65,000; other file systems know no links at all."""

    def full(*_arguments: object, **_more: object) -> None:
        raise OSError(31, "Too many links")

    monkeypatch.setattr(os, "link", full)
    writer.write_file(b"", entry(b"one", mode=0o640, size=4), b"data", [(b"", b"two")])

    assert (tree.path / "two").read_bytes() == b"data"
    assert (tree.path / "two").stat().st_mtime_ns == MTIME_NS
    assert stat.S_IMODE((tree.path / "two").stat().st_mode) == 0o640
    assert writer.tally.links_copied == 1


@pytest.mark.usefixtures("both_ways")
def test_a_tree_deeper_than_a_path_may_be_is_restored(writer: TreeWriter, tree: Any) -> None:
    """A thousand directories in one another, of names as long as may be; opened again when all others were."""
    deepest = (
        limits.WORKSPACE_DEPTH_MAX if linux.has_openat2() else 150
    )  # one by one it takes its time
    names = [b"%d" % (1000 + number) * 15 for number in range(deepest)]
    for depth in range(1, len(names) + 1):
        writer.make_folder(b"/".join(names[:depth]), entry(names[depth - 1], DIRECTORY, 0o755))
    bottom = b"/".join(names)
    writer.finish_folder(b"", entry(b"", DIRECTORY))
    writer.write_file(bottom, entry(b"f", size=1), b"x")

    assert bottom + b"/f" in tree.stats()


def test_only_an_empty_directory_takes_a_tree(tree: Any, root_only: None) -> None:
    """A file system's own `lost+found` is nothing."""
    (tree.path / "lost+found").mkdir()
    check_empty(tree.fd)
    tree.write("line\nfeed")

    with pytest.raises(Conflict, match=r"not empty: it holds line\\nfeed"):
        check_empty(tree.fd)


@pytest.mark.usefixtures("both_ways")
def test_what_a_broken_attempt_left_is_removed(tree: Any, tmp_path: Path) -> None:
    """To any depth, and nothing that a link leads to."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").write_text("kept")
    tree.dig([b"d" * 200] * 30)
    tree.write("a/b/c")
    (tree.path / "a" / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(tree.path / "pipe")
    (tree.path / "a").chmod(0)

    clear(tree.fd)
    check_empty(tree.fd)
    assert (tmp_path / "outside" / "kept").exists()


def test_an_ordinary_user_removes_what_it_has_closed(
    tree: Any, as_user: Callable[..., Any]
) -> None:
    """Its own directories without any right for it."""
    os.chown(tree.fd, ORDINARY_UID, ORDINARY_UID)
    with as_user():
        for path in ("a", "a/b", "a/b/c", "d"):
            os.mkdir(path, dir_fd=tree.fd)
        os.chmod("a/b", 0o500, dir_fd=tree.fd)
        os.chmod("a", 0o000, dir_fd=tree.fd)
        clear(tree.fd)

    check_empty(tree.fd)


def test_a_disk_without_room_is_told_before(small_disk: Any) -> None:
    """Bytes, and entries."""
    check_room(small_disk.fd, 10, 100_000)

    with pytest.raises(LimitExceeded, match="needs 2000000 bytes, its disk has 1048576"):
        check_room(small_disk.fd, 10, 2_000_000)
    with pytest.raises(LimitExceeded, match="has 70 entries, its disk has room for 63"):
        check_room(small_disk.fd, 70, 0)


def test_a_disk_that_fills_up_is_an_error_that_names_the_file(small_disk: Any) -> None:
    """Never a file cut short: what was begun goes."""
    writer = TreeWriter(small_disk.fd)
    make(writer, b"fits", bytes(900_000))
    with pytest.raises(LimitExceeded, match="large: No space left on device"):
        make(writer, b"large", b"x" * 200_000)

    writer.make_folder(b"many", entry(b"many", DIRECTORY))
    with pytest.raises(LimitExceeded, match=r"many/6.: No space left on device"):
        fill(writer, b"many", 100)
    writer.close()

    assert b"large" not in small_disk.stats()
    assert (small_disk.path / "fits").stat().st_size == 900_000
