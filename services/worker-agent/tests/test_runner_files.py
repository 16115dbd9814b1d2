"""File operations, by a real runner, over the channel."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from worker_agent.adapters.runner import FileFailed


async def pieces(*chunks: bytes) -> AsyncIterator[bytes]:
    """Give chunks one by one."""
    for chunk in chunks:
        yield chunk


async def read(runner: Any, path: str, **options: Any) -> bytes:
    """Read a file, or a piece of it."""
    taken = bytearray()

    async def sink(data: bytes) -> None:
        taken.extend(data)

    await runner.channel.files.read(path, sink, **options)
    return bytes(taken)


async def refusal(awaitable: Any) -> FileFailed:
    """Return what an operation was refused with."""
    with pytest.raises(FileFailed) as info:
        await awaitable
    return info.value


async def test_a_file_is_written_with_its_directories_and_mode_and_read_back(
    any_runner: Any,
) -> None:
    """Sizes around a frame's, and pieces larger than one."""
    files = any_runner.channel.files
    for size in (0, 1, 65536, 65537, 3_000_000):
        content = os.urandom(size)
        assert (
            await files.write("new/dir/file", pieces(content[:10], content[10:]), mode=0o750)
            == size
        )
        assert await read(any_runner, "new/dir/file") == content
    assert (any_runner.workspace / "new/dir/file").stat().st_mode & 0o7777 == 0o750
    assert [path.name for path in (any_runner.workspace / "new/dir").iterdir()] == ["file"]


async def test_a_piece_of_a_file_is_read(runner: Any) -> None:
    """Offset and limit; beyond the end there is nothing."""
    (runner.workspace / "file").write_bytes(bytes(range(100)))

    assert await read(runner, "file", offset=10, limit=5) == bytes(range(10, 15))
    assert await read(runner, "file", offset=95, limit=50) == bytes(range(95, 100))
    assert await read(runner, "file", offset=1000) == b""

    async def sink(_data: bytes) -> None:
        pass

    done = await runner.channel.files.read("file", sink, limit=1)
    assert (done.size, done.mode) == (100, 0o644)


async def test_a_write_replaces_as_a_whole_or_not_at_all(runner: Any) -> None:
    """When the source fails, the old content stays, and no half is left beside it."""
    (runner.workspace / "file").write_bytes(b"old")

    async def failing() -> AsyncIterator[bytes]:
        yield b"new" * 100_000
        raise LookupError("source broke")

    with pytest.raises(LookupError, match="source broke"):
        await runner.channel.files.write("file", failing())

    assert await read(runner, "file") == b"old"
    assert [path.name for path in runner.workspace.iterdir()] == ["file"]


async def test_a_write_through_a_link_inside_changes_what_it_points_to(runner: Any) -> None:
    """The link stays a link."""
    (runner.workspace / "link").symlink_to("target")
    await runner.channel.files.write("link", pieces(b"x"))

    assert (runner.workspace / "link").is_symlink()
    assert (runner.workspace / "target").read_bytes() == b"x"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("missing", "not_found"),
        ("directory", "is_a_directory"),
        ("file/below", "not_a_directory"),
        ("fifo", "not_a_file"),
        ("socket", "not_a_file"),
        ("out", "outside_workspace"),
        ("../secret", "outside_workspace"),
        ("/etc/passwd", "outside_workspace"),
        ("self/mem", "outside_workspace"),
    ],
)
async def test_what_cannot_be_read_is_refused_with_path_and_reason(
    runner: Any, path: str, code: str
) -> None:
    """No hang on a fifo, no way out by a link, no look into the runner's own memory."""
    (runner.workspace.parent / "secret").write_text("secret")
    (runner.workspace / "directory").mkdir()
    (runner.workspace / "file").touch()
    os.mkfifo(runner.workspace / "fifo")
    (runner.workspace / "out").symlink_to("../secret")
    (runner.workspace / "self").symlink_to("/proc/self")
    await runner.python("import socket; socket.socket(socket.AF_UNIX).bind('socket')")

    error = await refusal(read(runner, path))

    assert error.reason == code
    assert path in str(error)
    assert error.info().code == code


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("directory", "is_a_directory"),
        (".", "is_a_directory"),
        ("out", "outside_workspace"),
        ("linked/file", "outside_workspace"),
        ("file/below", "not_a_directory"),
        ("x" * 300, "invalid_path"),
    ],
)
async def test_what_cannot_be_written_is_refused_and_leaves_nothing(
    runner: Any, path: str, code: str
) -> None:
    """A link that points out can't be written through; the channel is fine afterwards."""
    (runner.workspace / "directory").mkdir()
    (runner.workspace / "file").touch()
    (runner.workspace / "out").symlink_to("../made")
    (runner.workspace / "linked").symlink_to("..")
    before = sorted(path.name for path in runner.workspace.iterdir())

    error = await refusal(runner.channel.files.write(path, pieces(*[b"x" * 100_000] * 100)))

    assert (error.reason, path[:100] in str(error)) == (code, True)
    assert not (runner.workspace.parent / "made").exists()
    assert sorted(path.name for path in runner.workspace.iterdir()) == before
    await runner.channel.files.write("after", pieces(b"fine"))
    assert await read(runner, "after") == b"fine"


async def test_a_full_disk_is_told_as_such(start: Any, small_disk: Path) -> None:
    """The file that was there stays; so does the channel."""
    small = await start(workspace=small_disk).connect()
    await small.channel.files.write("file", pieces(b"old"))

    error = await refusal(small.channel.files.write("file", pieces(*[bytes(100_000)] * 30)))

    assert error.reason == "disk_full"
    assert "file" in str(error)
    assert await read(small, "file") == b"old"
    await small.channel.close()


async def test_a_listing_names_type_size_and_mode_in_order(runner: Any) -> None:
    """Links are not followed."""
    (runner.workspace / "b").write_bytes(b"12345")
    (runner.workspace / "a").mkdir(mode=0o700)
    (runner.workspace / "c").symlink_to("/etc/passwd")
    os.mkfifo(runner.workspace / "d")

    listing = await runner.channel.files.list(".")

    shown = [(entry.name, entry.type) for entry in listing.entries]
    assert shown == [("a", "directory"), ("b", "file"), ("c", "symlink"), ("d", "other")]
    assert (listing.entries[1].size, listing.entries[0].mode, listing.truncated) == (
        5,
        0o700,
        False,
    )
    assert abs(listing.entries[1].mtime_ms - (runner.workspace / "b").stat().st_mtime * 1000) < 2


async def test_a_listing_of_a_file_or_link_is_its_own_entry(runner: Any) -> None:
    """One request tells what a path is; a link to a directory lists that."""
    (runner.workspace / "dir").mkdir()
    (runner.workspace / "dir" / "x").touch()
    (runner.workspace / "todir").symlink_to("dir")
    (runner.workspace / "dangling").symlink_to("nowhere")

    for path, names in (("dir/x", ["x"]), ("todir", ["x"]), ("dangling", ["dangling"])):
        assert [entry.name for entry in (await runner.channel.files.list(path)).entries] == names
    assert (await refusal(runner.channel.files.list("missing"))).reason == "not_found"


async def test_a_listing_is_bounded_and_says_so(runner: Any) -> None:
    """Many entries, long names, names that are no text."""
    for number in range(2500):
        (runner.workspace / f"{number:04}-{'é' * 100}").touch()
    (runner.workspace / "z\udcff\udcfe").touch()  # how Python writes the bytes ff and fe

    few = await runner.channel.files.list(".", limit=10)
    all_of_them = await runner.channel.files.list(".")

    assert (len(few.entries), few.truncated) == (10, True)
    assert (len(all_of_them.entries), all_of_them.truncated) == (2501, False)
    assert all_of_them.entries[-1].name == "z\\xff\\xfe"


async def test_remove_takes_files_links_and_whole_trees(runner: Any) -> None:
    """A link goes, not what it points to; a directory with content only if asked."""
    outside = runner.workspace.parent / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    tree = runner.workspace / "tree"
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "b" / "file").touch()
    (tree / "link").symlink_to(outside)
    (tree / "locked").mkdir()
    (tree / "locked" / "file").touch()
    (tree / "locked").chmod(0)
    (runner.workspace / "link").symlink_to(outside)
    files = runner.channel.files

    await files.remove("link")
    assert (await refusal(files.remove("tree"))).reason == "not_empty"
    assert (await refusal(files.remove("tree/link/kept"))).reason == "outside_workspace"
    await files.remove("tree", recursive=True)

    assert list(runner.workspace.iterdir()) == []
    assert (outside / "kept").exists()
    assert (await refusal(files.remove("tree"))).reason == "not_found"
    assert (await refusal(files.remove(".", recursive=True))).reason == "permission_denied"


async def test_a_tree_deeper_than_paths_can_say_is_removed(runner: Any) -> None:
    """Neither the depth nor the descriptors are a limit."""
    await runner.python(
        "import os\nfor n in range(3000):\n    os.mkdir('d'); open('f', 'w').close(); os.chdir('d')\nos.chdir('/')"
    )
    await runner.channel.files.remove("d", recursive=True)

    assert [path.name for path in runner.workspace.iterdir()] == ["f"]


async def test_operations_wait_for_each_other_and_run_beside_a_task(runner: Any) -> None:
    """Many at once, while a task writes."""
    running = asyncio.create_task(runner.shell("yes | head -c 20000000"))
    names = [f"file{number}" for number in range(10)]
    contents = [os.urandom(200_000) for _ in names]
    for result in await asyncio.gather(
        *(runner.channel.files.write(n, pieces(c)) for n, c in zip(names, contents, strict=True))
    ):
        assert result == 200_000
    assert await asyncio.gather(*(read(runner, name) for name in names)) == contents

    assert len((await running).stdout) == 20_000_000


async def test_an_operation_that_is_cancelled_frees_the_channel(runner: Any) -> None:
    """Reading a large file is given up in the middle; so is a write."""
    await runner.shell("head -c 50000000 /dev/zero > large")
    reading, writing = asyncio.Event(), asyncio.Event()

    async def stuck(_data: bytes) -> None:
        reading.set()
        await asyncio.Event().wait()

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 1000
            writing.set()
            await asyncio.sleep(0)

    for operation, reached in (
        (runner.channel.files.read("large", stuck), reading),
        (runner.channel.files.write("endless", endless()), writing),
    ):
        given_up = asyncio.create_task(operation)
        await reached.wait()
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        assert [entry.name for entry in (await runner.channel.files.list(".")).entries] == ["large"]
