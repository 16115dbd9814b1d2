"""Restores of trees, and beside users, that mean harm. Outside of the workspace nothing ever changes."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from checkpointer.adapters.files import linux
from checkpointer.adapters.files.folders import OPEN_MAX
from checkpointer.adapters.files.restore import TreeWriter
from checkpointer.core.entries import DIRECTORY, FIFO, FILE, SYMLINK, Entry
from shared.errors import Conflict, Damaged, LimitExceeded


def entry(name: bytes, kind: int = FILE, mode: int = 0o644, **more: Any) -> Entry:
    """Return an entry as a decoder might give it."""
    return Entry(name, kind, mode, 0, 0, 1_600_000_000_000_000_000, **more)


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """Somebody else's directory; it must stay as it is."""
    place = tmp_path / "outside"
    place.mkdir()
    (place / "kept").write_text("kept")
    yield place
    assert [(one.name, one.read_text()) for one in place.iterdir()] == [("kept", "kept")]


MAKE: dict[str, Callable[[TreeWriter, bytes], None]] = {
    "file": lambda writer, name: writer.write_file(b"", entry(name, size=1), b"x"),
    "folder": lambda writer, name: writer.make_folder(b"a/" + name, entry(name, DIRECTORY)),
    "link": lambda writer, name: writer.make_leaf(b"", entry(name, SYMLINK, content=b"t")),
    "pipe": lambda writer, name: writer.make_leaf(b"", entry(name, FIFO)),
    "second name": lambda writer, name: writer.write_file(
        b"", entry(b"first", size=1), b"x", [(b"", name)]
    ),
}


@pytest.mark.parametrize("name", [b"", b".", b"..", b"a/b", b"../x", b"/x", b"a\0b", b"\0"])
@pytest.mark.parametrize("kind", MAKE)
def test_a_name_that_means_another_place_is_refused(
    make_writer: Callable[[], TreeWriter], tree: Any, name: bytes, kind: str
) -> None:
    """Though decoders refuse it before; the gate open or not."""
    for gate in (False, True):
        writer = make_writer()
        if gate:
            writer.open_gate()
            tree.write("first").unlink()
        with pytest.raises(Damaged, match="is no name of a file"):
            MAKE[kind](writer, name)

    assert {one.name for one in tree.path.parent.iterdir()} == {"workspace"}
    assert set(tree.stats()) <= {b"first"}


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("path", [b"..", b"a/..", b"a/../..", b"../workspace"])
def test_a_path_that_leads_upwards_is_refused(tree: Any, path: bytes) -> None:
    """Even where it would end within."""
    (tree.path / "a").mkdir()

    with pytest.raises(OSError, match="leads upwards"):
        linux.open_beneath(tree.fd, path, linux.DIRECTORY)
    os.close(linux.open_beneath(tree.fd, b"a", linux.DIRECTORY))


def test_a_name_longer_than_the_file_system_takes_is_an_error_with_its_path(
    writer: TreeWriter,
) -> None:
    """From a tree that another file system held."""
    with pytest.raises(LimitExceeded, match=r"n{100,}.*: File name too long"):
        writer.write_file(b"", entry(b"n" * 256, size=1), b"x")


@pytest.mark.parametrize("target", [b"", b"a\0b"])
def test_a_link_that_can_not_be_is_refused(writer: TreeWriter, target: bytes) -> None:
    """No kernel ever gave it."""
    with pytest.raises(Damaged, match="leads nowhere"):
        writer.make_leaf(b"", entry(b"link", SYMLINK, content=target))


def test_a_name_that_is_there_twice_is_refused(writer: TreeWriter, tree: Any) -> None:
    """The first one stays; a link is never written through."""
    (tree.path.parent / "victim").write_text("kept")
    writer.make_leaf(b"", entry(b"twice", SYMLINK, content=b"../victim"))

    with pytest.raises(Conflict, match="twice: File exists"):
        writer.write_file(b"", entry(b"twice", size=1), b"x")
    with pytest.raises(Conflict, match="twice: File exists"):
        writer.make_folder(b"twice", entry(b"twice", DIRECTORY))
    assert (tree.path.parent / "victim").read_text() == "kept"


@pytest.mark.usefixtures("both_ways")
def test_a_link_in_place_of_a_directory_is_not_followed(
    writer: TreeWriter, tree: Any, outside: Path
) -> None:
    """A tree that says that a name is a link, and again a directory with files."""
    writer.make_leaf(b"", entry(b"a", SYMLINK, content=os.fsencode(outside)))

    for attempt in (
        lambda: writer.write_file(b"a", entry(b"planted", size=1), b"x"),
        lambda: writer.make_folder(b"a/planted", entry(b"planted", DIRECTORY)),
        lambda: writer.make_leaf(b"a", entry(b"planted", SYMLINK, content=b"t")),
        lambda: writer.write_file(b"", entry(b"first", size=1), b"x", [(b"a", b"planted")]),
        lambda: writer.finish_folder(b"a", entry(b"a", DIRECTORY, 0o777)),
    ):
        with pytest.raises(Conflict, match=r"a(/planted)?: "):
            attempt()


def test_behind_the_gate_what_the_user_made_stays(writer: TreeWriter, tree: Any) -> None:
    """A file, a link or a directory by the name; a directory that it removed takes all that belongs there with it."""
    for path in (b"a", b"removed"):
        writer.make_folder(path, entry(path, DIRECTORY, 0o755))
    writer.open_gate()
    tree.write("a/file", b"the user's")
    (tree.path / "a" / "link").symlink_to("nowhere")
    (tree.path / "a" / "folder").mkdir()
    (tree.path / "removed").rmdir()
    writer.close()  # what was open of it

    for name in (b"file", b"link", b"folder"):
        writer.write_file(b"a", entry(name, size=1), b"x")
    writer.write_file(b"removed", entry(b"file", size=1), b"x")
    writer.write_file(b"", entry(b"whole", size=1), b"x", [(b"a", b"file"), (b"removed", b"file")])
    writer.finish_folder(b"removed", entry(b"removed", DIRECTORY))

    assert set(tree.stats()) == {b"a", b"a/file", b"a/link", b"a/folder", b"whole"}
    assert (tree.path / "a/file").read_bytes() == b"the user's"
    assert writer.tally.kept == 7
    assert writer.tally.files == 1


def test_behind_the_gate_no_file_is_seen_in_part(writer: TreeWriter, tree: Any) -> None:
    """It appears whole; one that fails in the middle never."""
    writer.open_gate()
    with writer.open_file(b"", entry(b"file", size=2 << 20)) as sink:
        sink.write(0, b"x" * (1 << 20))
        assert not (tree.path / "file").exists()
        sink.write(1 << 20, b"x" * (1 << 20))
    assert (tree.path / "file").stat().st_size == 2 << 20

    with (
        contextlib.suppress(InterruptedError),
        writer.open_file(b"", entry(b"other", size=2)) as sink,
    ):
        sink.write(0, b"x")
        raise InterruptedError
    assert set(tree.stats()) == {b"file"}


@pytest.mark.usefixtures("both_ways")
def test_links_swapped_in_during_a_restore_lead_nowhere(
    writer: TreeWriter, tree: Any, outside: Path, neighbour: Callable[..., None]
) -> None:
    """User code exchanges a directory and a link to another's files as fast as it can."""
    for path in (b"a", b"a/b"):
        writer.make_folder(path, entry(path.split(b"/")[-1], DIRECTORY, 0o755))
    writer.open_gate()
    (tree.path / "l").symlink_to(outside)
    neighbour(
        "os.rename('a', 'c'); os.rename('l', 'a'); os.rename('a', 'l'); os.rename('c', 'a')",
        tree.path,
    )
    (tree.path / "m").mkdir()

    deadline, number = time.monotonic() + 1.0, 0
    while time.monotonic() < deadline:
        number += 1
        name = b"%d" % number
        writer.close()  # nothing that was open helps it
        writer.write_file(b"a", entry(name, size=1), b"x", [(b"a/b", name)])
        writer.make_leaf(b"a", entry(b"l" + name, SYMLINK, content=b"t"))
        writer.finish_folder(b"a", entry(b"a", DIRECTORY, 0o755))

    assert 0 < writer.tally.kept < 3 * number
    assert writer.tally.files > 0


def test_files_are_restored_by_several_threads_at_once(writer: TreeWriter, tree: Any) -> None:
    """Each with directories of its own, more of them than one keeps open."""
    folders = [b"%d" % number for number in range(40)]
    for path in folders:
        writer.make_folder(path, entry(path, DIRECTORY, 0o755))

    def fill(part: int) -> None:
        for round_ in range(5):
            for path in folders:
                writer.write_file(path, entry(b"%d-%d" % (part, round_), size=4), b"data")

    threads = [threading.Thread(target=fill, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert writer.tally.files == 4 * 5 * 40
    assert tree.scan().entries == 40 + writer.tally.files


def test_a_restore_keeps_few_directories_open(tree: Any) -> None:
    """Few at once, and none when it is closed."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    writer = TreeWriter(tree.fd)
    for number in range(40):
        writer.make_folder(b"%d" % number, entry(b"%d" % number, DIRECTORY))
        writer.write_file(b"%d" % number, entry(b"f", size=1), b"x")
    assert len(list(Path("/proc/self/fd").iterdir())) == before + OPEN_MAX
    writer.close()

    assert len(list(Path("/proc/self/fd").iterdir())) == before
