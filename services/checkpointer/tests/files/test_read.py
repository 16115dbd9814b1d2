"""Reading what changed while its owner does with it what it likes."""

from __future__ import annotations

import fcntl
import mmap
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from checkpointer.adapters.files.read import (
    ATTEMPTS,
    HOLE_BYTES_MIN,
    Outcome,
    Reading,
    Source,
    read_as_seen,
    read_file,
    read_folder_attributes,
    read_link,
)
from shared import limits
from shared.errors import LimitExceeded
from shared.testing.ordinary import ORDINARY_UID

BLOCK = 4096
BLOCKS = 1024


def whole(source: Source) -> bytes:
    """Return all bytes of a file, holes as zeros."""
    content = bytearray(source.size)
    for begin, end in source.extents():
        content[begin:end] = source.read(begin, end - begin)
    return bytes(content)


def read(tree: Any, name: str, **more: Any) -> Reading[bytes]:
    """Read a whole file."""
    return read_file(tree.folders, name.encode(), more.pop("consume", whole), **more)


@pytest.mark.usefixtures("both_ways")
def test_a_calm_file_is_read_with_its_signature_and_attributes(tree: Any) -> None:
    """As the scan saw it."""
    file = tree.write("a/file", b"content")
    os.setxattr(file, "user.b", b"2")
    os.setxattr(file, "user.a", b"\0\xff")
    seen = tree.stats()[b"a/file"]

    got = read(tree, "a/file", seen=seen)
    assert (got.outcome, got.value) == (Outcome.READ, b"content")
    assert got.stat == seen
    assert got.attributes == ((b"user.a", b"\0\xff"), (b"user.b", b"2"))


def test_a_small_file_is_read_at_once_only_as_the_scan_saw_it(tree: Any) -> None:
    """Whatever changed it since, or took its place, leaves it to the longer way."""
    file = tree.write("file", b"content")
    at, seen = tree.folders.get(b""), tree.stats()[b"file"]
    device = os.fstat(at).st_dev
    assert read_as_seen(at, b"file", seen, device) == b"content"

    assert read_as_seen(at, b"file", seen, device + 1) is None  # something was mounted over it
    file.chmod(0o600)
    assert read_as_seen(at, b"file", seen, device) is None
    os.setxattr(file, "user.a", b"1")
    assert read_as_seen(at, b"file", tree.stats()[b"file"], device) is None
    file.write_bytes(b"longer than before")
    assert read_as_seen(at, b"file", seen, device) is None
    file.unlink()
    assert read_as_seen(at, b"file", seen, device) is None
    os.mkfifo(file)  # nobody writes to it
    assert read_as_seen(at, b"file", seen, device) is None
    file.unlink()
    file.symlink_to(tree.write("other", b"content"))
    assert read_as_seen(at, b"file", seen, device) is None


def test_that_a_folder_was_listed_leaves_no_trace(tree: Any) -> None:
    """A save changes nothing of a workspace, not even when it was read last."""
    tree.write("a/file", b"content")
    folder = tree.path / "a"
    os.utime(folder, ns=(1_000_000_000, 2_000_000_000))  # so old that a look would show
    tree.stats()
    assert folder.stat().st_atime_ns == 1_000_000_000


def test_other_attributes_than_the_users_are_left(tree: Any, root_only: None) -> None:
    """A capability in a file would give its rights to whoever restores it."""
    file = tree.write("file")
    capability = bytes.fromhex("0100000200200000000000000000000000000000")
    os.setxattr(file, "security.capability", capability)
    os.setxattr(file, "trusted.x", b"1")

    assert read(tree, "file").attributes == ()


def test_too_many_bytes_of_attributes_are_refused_with_the_path(memory_tree: Any) -> None:
    """The bound itself is taken; of a directory as well."""
    file = memory_tree.write("folder/file")
    folder = memory_tree.path / "folder"
    most = limits.WORKSPACE_XATTR_BYTES_MAX
    for path in (file, folder):
        os.setxattr(path, "user.a", bytes(most // 2 - 6))
        os.setxattr(path, "user.b", bytes(most // 2 - 6))
    assert sum(len(k) + len(v) for k, v in read(memory_tree, "folder/file").attributes) == most
    assert read_folder_attributes(memory_tree.folders, b"folder")
    for path in (file, folder):
        os.setxattr(path, "user.b", bytes(most // 2 - 5))

    with pytest.raises(LimitExceeded, match=f"folder/file: more than {most} bytes"):
        read(memory_tree, "folder/file")
    with pytest.raises(LimitExceeded, match=f"folder: more than {most} bytes"):
        read_folder_attributes(memory_tree.folders, b"folder")


def test_what_changes_during_each_attempt_is_torn(tree: Any) -> None:
    """Three attempts; the last one's bytes are there for whoever has nothing better."""
    file, seen = tree.write("file", b"0" * 100), list[bytes]()

    def consume(source: Source) -> bytes:
        data = source.read(0, source.size)
        seen.append(data)
        with file.open("ab") as log:
            log.write(b"more")
        return data

    got = read(tree, "file", consume=consume)
    assert (got.outcome, len(seen)) == (Outcome.TORN, ATTEMPTS)
    assert got.value == seen[-1]
    assert got.stat is not None
    assert got.stat.size == len(seen[-1])


def test_what_changes_once_is_read_again(tree: Any) -> None:
    """Its second state, whole."""
    file, turns = tree.write("file", b"first"), list[int]()

    def consume(source: Source) -> bytes:
        turns.append(1)
        data = source.read(0, source.size)
        if len(turns) == 1:
            file.write_bytes(b"other")
        return data

    assert read(tree, "file", consume=consume)[::2] == (Outcome.READ, b"other")


@pytest.mark.usefixtures("tracked")
def test_a_mapped_write_during_the_read_is_noticed(tree: Any) -> None:
    """Its page is dirty since the scan, so no time would move: it is written back before."""
    file = tree.write("mapped", bytes(8192))
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 8192) as mapping:
        seen = tree.stats()[b"mapped"]
        mapping[0:4] = b"aaaa"

        def consume(source: Source) -> bytes:
            head = source.read(0, BLOCK)
            mapping[0:4] = b"bbbb"
            return head + source.read(BLOCK, BLOCK)

        got = read(tree, "mapped", consume=consume, seen=seen)

    assert got.outcome is Outcome.TORN


def test_what_a_busy_writer_leaves_is_one_moments_or_torn(
    tree: Any, neighbour: Callable[..., None]
) -> None:
    """A process writes each block in turn, round by round: in any one moment the first ones are a round ahead."""
    tree.write("file", bytes(BLOCK * BLOCKS))
    neighbour(
        f"f = os.open('file', os.O_WRONLY)\n"
        f"for b in range({BLOCKS}): os.pwrite(f, n.to_bytes(8, 'big') * {BLOCK // 8}, b * {BLOCK})\n"
        f"os.close(f)",
        tree.path,
    )
    deadline, outcomes = time.monotonic() + 1.5, set[Outcome]()
    while time.monotonic() < deadline:
        got = read(tree, "file")
        outcomes.add(got.outcome)
        if got.outcome is Outcome.READ:
            assert got.value is not None
            rounds = [
                int.from_bytes(got.value[at : at + 8], "big")
                for at in range(0, len(got.value), BLOCK)
            ]
            assert rounds == sorted(rounds, reverse=True)
            assert rounds[0] - rounds[-1] <= 1

    assert Outcome.TORN in outcomes


def test_a_file_that_shrinks_under_the_read_is_torn(tree: Any) -> None:
    """Never padded."""
    file = tree.write("file", bytes(1000))

    def consume(source: Source) -> bytes:
        os.truncate(file, 10 if source.size == 1000 else 1000)
        return source.read(0, source.size) if source.size == 1000 else b""

    assert read(tree, "file", consume=consume).outcome is Outcome.TORN


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("what", ["nothing", "a directory", "a link", "a pipe", "a link above"])
def test_what_took_a_files_place_is_not_read(tree: Any, tmp_path: Any, what: str) -> None:
    """No wait for the writer of a pipe, no byte of another's file."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("secret")
    file = tree.write("a/file")
    file.unlink()
    if what == "a directory":
        file.mkdir()
    elif what == "a link":
        file.symlink_to(tmp_path / "outside" / "file")
    elif what == "a pipe":
        os.mkfifo(file)
    elif what == "a link above":
        file.parent.rmdir()
        file.parent.symlink_to(tmp_path / "outside")

    assert read(tree, "a/file") == Reading(Outcome.GONE)


def test_a_lease_holds_nobody_up(tree: Any) -> None:
    """Its holder is asked to give it up and would have 45 s for that."""
    file = tree.write("leased")
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        with file.open("r+b") as holder:
            fcntl.fcntl(holder, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            begun = time.monotonic()
            assert read(tree, "leased").outcome is Outcome.TORN
            assert time.monotonic() - begun < 5
    finally:
        signal.signal(signal.SIGIO, before)
    assert read(tree, "leased").outcome is Outcome.READ


def test_what_its_owner_lets_nobody_read_is_told(tree: Any, as_user: Callable[..., Any]) -> None:
    """And not taken for gone."""
    file = tree.write("closed")
    os.chown(file, ORDINARY_UID, ORDINARY_UID)
    file.chmod(0)
    with as_user():
        assert read(tree, "closed").outcome is Outcome.UNREADABLE


def test_another_users_file_is_read_though_its_access_time_must_move(
    tree: Any, as_user: Callable[..., Any]
) -> None:
    """Only the owner may read without a trace."""
    tree.write("theirs", b"content").chmod(0o644)
    with as_user():
        assert read(tree, "theirs").value == b"content"


def test_holes_are_not_read(tree: Any) -> None:
    """At the beginning, in the middle, at the end; short ones are zeros like others."""
    hole, data = HOLE_BYTES_MIN, b"d" * BLOCK
    file = tree.path / "sparse"
    with file.open("wb") as out:
        for at in (hole, 3 * hole, 3 * hole + 2 * BLOCK, 6 * hole):
            out.seek(at)
            out.write(data)
        out.truncate(9 * hole)
    os.truncate(tree.write("empty", b""), 1 << 40)

    extents = read(tree, "sparse", consume=lambda source: list(source.extents())).value
    assert extents == [
        (hole, hole + BLOCK),
        (3 * hole, 3 * hole + 3 * BLOCK),
        (6 * hole, 6 * hole + BLOCK),
    ]
    assert read(tree, "sparse").value == file.read_bytes()
    assert read(tree, "empty", consume=lambda source: list(source.extents())).value == []


@pytest.mark.usefixtures("both_ways")
def test_a_link_is_read_and_never_followed(tree: Any) -> None:
    """Its target is data."""
    (tree.path / "link").symlink_to("/etc/passwd")
    (tree.path / "folder").symlink_to("/etc")
    tree.write("file")

    assert read_link(tree.folders, b"link") == b"/etc/passwd"
    assert read_link(tree.folders, b"file") is None
    assert read_link(tree.folders, b"none") is None
    assert read_link(tree.folders, b"folder/mtab") is None
    assert read_folder_attributes(tree.folders, b"folder") == ()
