"""Scans of trees whose owner does not wish them well."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from checkpointer.adapters.files import linux
from checkpointer.adapters.files.read import read_file
from checkpointer.adapters.files.scan import scan
from checkpointer.core.listings import TIME_NS_MAX
from checkpointer.core.scans import GONE, MOUNT, UNREADABLE, Look
from shared.testing.ordinary import ORDINARY_UID


@pytest.mark.usefixtures("root_only", "both_ways")
def test_nothing_that_is_mounted_inside_is_entered(tree: Any) -> None:
    """Another file system; what is bound from the same one is met by openat2 alone."""
    (tree.path / "mounted").mkdir()
    file = tree.write("file")
    subprocess.run(["mount", "-t", "tmpfs", "m", tree.path / "mounted"], check=True)
    try:
        (tree.path / "mounted" / "token").write_text("secret")
        subprocess.run(["mount", "--bind", tree.path / "mounted" / "token", file], check=True)
        seen = tree.scan()
        with pytest.raises(OSError, match=r"[Ii]nvalid cross-device link"):
            linux.open_beneath(tree.fd, b"mounted", linux.DIRECTORY)
    finally:
        subprocess.run(["umount", "--lazy", file], check=False)
        subprocess.run(["umount", "--lazy", tree.path / "mounted"], check=True)

    assert seen.skipped == {b"mounted": MOUNT, b"file": MOUNT}
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
        read = read_file(tree.folders, b"file", lambda source: source.read(0, source.size))
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
