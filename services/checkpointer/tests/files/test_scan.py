"""What a scan sees, and what it never takes for unchanged."""

from __future__ import annotations

import contextlib
import mmap
import os
import socket
import stat
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from checkpointer.adapters.files.read import read_file
from checkpointer.adapters.files.scan import scan
from checkpointer.core.excludes import Excludes
from checkpointer.core.listings import RACY_NS, SECOND_NS, TIME_NS_MAX, is_racy
from checkpointer.core.scans import GONE, MOUNT, UNREADABLE, Look
from shared import limits
from shared.errors import LimitExceeded
from shared.testing.ordinary import ORDINARY_UID

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


def test_an_unchanged_tree_has_equal_listings(tree: Any) -> None:
    """As a whole, directory by directory; parents come before their children."""
    for name in ("a/b/c", "a/d", "e", "f/g"):
        tree.write(name)
    seen = tree.settled()

    assert seen.folders == tree.scan().folders
    assert [folder.path for folder in seen.folders[:1]] == [b""]
    assert {folder.path for folder in seen.folders} == {b"", b"a", b"a/b", b"f"}
    assert (seen.entries, seen.data_bytes) == (7, 4)


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


def test_what_changed_just_before_the_scan_is_looked_at_again(tree: Any) -> None:
    """Another write may leave the same times where the clock ticks."""
    tree.settled()
    tree.write("fresh")
    seen = tree.scan().folders[0]

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
                read_file(tree.fd, b"file", lambda source: source.read(0, source.size)).value or b""
            )
        missed += known != b"%08d" % number
        cached = seen.to_cache()
        os.pwrite(descriptor, b"%08d" % (number + 1), 0)
    os.close(descriptor)

    assert missed == 0


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


@pytest.mark.usefixtures("both_ways")
def test_a_path_longer_than_the_kernel_takes_is_scanned_to_its_end(tree: Any) -> None:
    """Made by descriptors; walks by path see a third of it and say nothing."""
    _dig(tree.fd, [b"d" * 200] * 60)

    seen = tree.scan()
    assert seen.entries == 61
    assert len(seen.folders[-1].path) == 60 * 201 - 1
    assert [name for name, _ in seen.folders[-1].listing.entries()] == [b"bottom"]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            [b"d" * 255] * 256,
            f"a path of {256 * 256 + 6} bytes, at most {limits.WORKSPACE_PATH_BYTES_MAX}",
        ),
        ([b"d"] * 1025, f"1025 directories deep, at most {limits.WORKSPACE_DEPTH_MAX}"),
    ],
)
def test_a_path_too_long_or_too_deep_is_refused_by_its_name(
    tree: Any, names: list[bytes], said: str
) -> None:
    """One less is taken; the error is read by people, so it does not show all of it."""
    _dig(tree.fd, names[:-1])
    assert tree.scan().entries == len(names)
    _dig(tree.fd, names)

    with pytest.raises(LimitExceeded, match="d/") as refused:
        tree.scan()
    assert said in str(refused.value)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    ("bound", "value", "said"),
    [
        ("WORKSPACE_ENTRIES_MAX", 3, "in: the workspace has more than 3 entries"),
        ("WORKSPACE_FOLDER_ENTRIES_MAX", 2, "in: a directory of more than 2 entries"),
        ("WORKSPACE_BYTES_MAX", 10_000, "in: the workspace has more than 10000 bytes"),
        ("WORKSPACE_FILE_BYTES_MAX", 5_000, "in/large: a file of 8192 bytes, at most 5000"),
    ],
)
def test_a_tree_above_a_bound_is_refused_with_path_and_bound(
    tree: Any, monkeypatch: pytest.MonkeyPatch, bound: str, value: int, said: str
) -> None:
    """The bound itself is taken."""
    tree.write("in/large", bytes(8192))
    tree.write("in/small", bytes(1808))
    tree.scan()
    monkeypatch.setattr(limits, bound, value)
    if "FILE" not in bound:
        tree.scan()
        tree.write("in/one-more", bytes(4096))

    with pytest.raises(LimitExceeded) as refused:
        tree.scan()
    assert str(refused.value) == said


def test_a_sparse_file_counts_by_its_data_up_to_a_size(tree: Any) -> None:
    """A database that reserves addresses is no large file; a name for endless zeros is refused."""
    file = tree.write("sparse")
    os.truncate(file, limits.WORKSPACE_SPARSE_BYTES_MAX)

    assert tree.scan().data_bytes <= 64 * 1024
    os.truncate(file, limits.WORKSPACE_SPARSE_BYTES_MAX + 1)
    with pytest.raises(
        LimitExceeded,
        match=r"sparse: a file of 1099511627777 bytes, holes included, at most 1099511627776",
    ):
        tree.scan()


@pytest.mark.slow
def test_a_directory_may_hold_half_a_million_entries(memory_tree: Any) -> None:
    """And not one more."""
    for number in range(limits.WORKSPACE_FOLDER_ENTRIES_MAX - 1):
        os.mknod(b"%x" % number, 0o600 | stat.S_IFREG, dir_fd=memory_tree.fd)
    memory_tree.write("folder/inside")

    assert memory_tree.scan().entries == limits.WORKSPACE_FOLDER_ENTRIES_MAX + 1
    memory_tree.write("one-more")
    with pytest.raises(LimitExceeded, match="the root: a directory of more than 500000 entries"):
        memory_tree.scan()


def test_patterns_leave_out_names_and_whole_paths(tree: Any) -> None:
    """What lies below an excluded directory is not even looked at."""
    for name in ("a/x.pyc", "a/x.py", ".cache/big", "build/out", "a/build/kept", "é/x.pyc"):
        tree.write(name)

    seen = tree.stats(excludes=Excludes(["*.pyc", ".cache", "/build", "é"]))
    assert set(seen) == {b"a", b"a/x.py", b"a/build", b"a/build/kept"}


@pytest.mark.parametrize("patterns", [["x"] * 65, ["x" * 1025], [""], ["/"]])
def test_patterns_have_bounds(patterns: list[str]) -> None:
    """Too many, too long, or one that matches nothing on purpose."""
    with pytest.raises(ValueError, match="exclude pattern"):
        Excludes(patterns)


def test_pipes_and_sockets_are_listed_and_devices_counted(tree: Any, root_only: None) -> None:
    """None of them is opened."""
    os.mkfifo(tree.path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        descriptor = f"/proc/self/fd/{tree.fd}/socket"
        listener.bind(descriptor)
    os.mknod(tree.path / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(tree.path / "disk", stat.S_IFBLK | 0o666, os.makedev(7, 99))

    assert set(tree.stats()) == {b"pipe", b"socket"}
    assert tree.scan().devices == 2


@pytest.mark.usefixtures("root_only", "both_ways")
def test_nothing_that_is_mounted_inside_is_entered(tree: Any) -> None:
    """Another file system; what is bound from the same one is met by openat2 alone."""
    (tree.path / "mounted").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "m", tree.path / "mounted"], check=True)
    try:
        (tree.path / "mounted" / "token").write_text("secret")
        seen = tree.scan()
    finally:
        subprocess.run(["umount", "--lazy", tree.path / "mounted"], check=True)

    assert seen.skipped == {b"mounted": MOUNT}
    assert [folder.path for folder in seen.folders] == [b""]


def test_nothing_that_is_bound_inside_is_entered(tree: Any, tmp_path: Any, root_only: None) -> None:
    """Though it is of the same file system; a file as well as a directory."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "token").write_text("secret")
    (tree.path / "bound").mkdir()
    file = tree.write("file")
    for source, target in (("secrets", tree.path / "bound"), ("secrets/token", file)):
        subprocess.run(["mount", "--bind", tmp_path / source, target], check=True)
    try:
        seen = tree.scan()
        read = read_file(tree.fd, b"file", lambda source: source.read(0, source.size))
    finally:
        for target in (tree.path / "bound", file):
            subprocess.run(["umount", "--lazy", target], check=True)

    assert seen.skipped == {b"bound": MOUNT}
    assert [folder.path for folder in seen.folders] == [b""]
    assert (read.outcome.value, read.value) == (MOUNT, None)


@pytest.mark.usefixtures("both_ways")
def test_a_directory_that_becomes_something_else_is_not_entered(tree: Any, tmp_path: Any) -> None:
    """It was listed as a directory; then it is gone, a file, or a link to what is none of the user's."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    for name in ("gone", "file", "link", "stays/below"):
        (tree.path / name).mkdir(parents=True)

    def change(_entries: int, _bytes: int) -> None:
        if (tree.path / "gone").exists():
            for name in ("gone", "file", "link"):
                (tree.path / name).rmdir()
            tree.write("file")
            (tree.path / "link").symlink_to(tmp_path / "outside")

    seen = scan(tree.fd, Look(), change)
    assert seen.skipped == {b"gone": GONE, b"file": GONE, b"link": GONE}
    assert {folder.path for folder in seen.folders} == {b"", b"stays", b"stays/below"}


@pytest.mark.usefixtures("both_ways")
def test_links_swapped_in_during_a_scan_lead_nowhere(
    tree: Any, tmp_path: Any, neighbour: Callable[..., None]
) -> None:
    """A process exchanges a directory and a link to another's files as fast as it can."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    tree.write("real/inside/file")
    (tree.path / "a").mkdir()
    (tree.path / "b").symlink_to(tmp_path / "outside")
    neighbour(
        "os.rename('a', 'c'); os.rename('b', 'a'); os.rename('a', 'b'); os.rename('c', 'a')",
        tree.path,
    )

    deadline, found, kinds = time.monotonic() + 1.0, set[bytes](), set[int]()
    while time.monotonic() < deadline:
        seen = tree.stats(sync=False)
        found |= {path.rsplit(b"/", 1)[-1] for path in seen}
        kinds |= {stat.S_IFMT(one.mode) for path, one in seen.items() if path == b"a"}

    assert b"secret" not in found
    assert kinds == {stat.S_IFDIR, stat.S_IFLNK}


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


def test_what_an_ordinary_user_may_not_read_is_named(
    tree: Any, as_user: Callable[..., Any]
) -> None:
    """The checkpointer of an ordinary user is no root."""
    tree.write("closed/inside")
    tree.write("open/inside")
    os.chown(tree.path, ORDINARY_UID, ORDINARY_UID)
    (tree.path / "closed").chmod(0)
    with as_user():
        seen = tree.scan()

    assert seen.skipped == {b"closed": UNREADABLE}
    assert [folder.path for folder in seen.folders] == [b"", b"open"]


def test_a_time_beyond_a_number_of_64_bits_is_cut(tree: Any) -> None:
    """Whoever sets the year 2400 does not stop the snapshot."""
    file = tree.write("future")
    os.utime(file, (1, 13_569_465_600))

    assert file.stat().st_mtime_ns > TIME_NS_MAX
    assert tree.stats()[b"future"].mtime_ns == TIME_NS_MAX


def test_files_that_were_read_since_a_restore_are_told(tree: Any) -> None:
    """What a task reads first is restored first the next time; the checkpointer's own reads leave no trace."""
    for name in ("read", "unread"):
        tree.write(name)
        os.utime(tree.path / name, (1, 1))
    since_ns = time.time_ns()
    for path in (b"read", b"unread"):
        read_file(tree.fd, path, lambda source: source.read(0, 1))
    (tree.path / "read").read_bytes()
    if (tree.path / "read").stat().st_atime_ns < since_ns - SECOND_NS:
        assert "noatime" in "".join(line for line in open("/proc/self/mounts"))  # noqa: PTH123, SIM115 - one look
        return

    assert tree.scan(accessed_since_ns=since_ns - SECOND_NS).folders[0].accessed == {b"read"}


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


def _dig(root: int, names: list[bytes]) -> None:
    """Make directories in one another, and a file at the bottom, by descriptors."""
    at = os.dup(root)
    for name in names:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
        os.close(at)
        at = below
    os.close(os.open(b"bottom", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)
