"""Folders as tar archives: out and back, and what an archive made by hostile code can't do on the user's machine."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from agent_sandbox import archives, unpacking
from agent_sandbox.unpacking import Unpacked, stays_inside, unpack
from shared.errors import InvalidMessage, LimitExceeded

FILE, LINK, HARD = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


def names_in(folder: Path) -> list[str]:
    """Return what lies in a folder."""
    return sorted(path.name for path in folder.iterdir())


async def packed(folder: Path) -> bytes:
    """Return a folder's archive."""
    async with aclosing(archives.pack(folder)) as pieces:
        return b"".join([piece async for piece in pieces])


async def written(content: bytes, folder: Path) -> Unpacked:
    """Unpack content that comes in small pieces."""

    async def pieces() -> AsyncIterator[bytes]:
        for at in range(0, len(content), 10_000):
            yield content[at : at + 10_000]

    return await unpack(pieces(), folder)


def made(*members: tuple[str, bytes, str], **fields: Any) -> bytes:
    """Return an archive of (name, type, target or content)."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, kind, text in members:
            head = tarfile.TarInfo(name)
            head.type = kind
            for field, value in fields.items():
                setattr(head, field, value)
            if kind == FILE:
                head.size = len(text)
                archive.addfile(head, io.BytesIO(text.encode()))
            else:
                head.linkname = text
                archive.addfile(head)
    return file.getvalue()


async def test_a_folder_goes_out_and_back(tmp_path: Path) -> None:
    """Contents, modes, times, empty directories, links within it, names that are no text; measured to the byte."""
    folder, back = tmp_path / "folder", tmp_path / "new" / "back"
    strange = os.fsdecode(b"caf\xe9\n")
    (folder / "a" / "empty").mkdir(parents=True)
    (folder / "a" / "big").write_bytes(content := os.urandom(1_500_001))
    (folder / "a" / "big").chmod(0o750)
    os.utime(folder / "a" / "big", (10**9, 10**9))
    (folder / strange).write_text("strange")
    (folder / ("d" * 200)).mkdir()
    (folder / ("d" * 200) / ("f" * 200)).write_text("long")
    (folder / "link").symlink_to("a/big")
    (folder / "out").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe")

    archive = await packed(folder)
    done = await written(archive, back)

    assert archives.measure(folder) <= len(archive) <= archives.measure(folder) + tarfile.RECORDSIZE
    assert (back / "a" / "big").read_bytes() == content
    assert (back / "a" / "big").stat().st_mode & 0o777 == 0o750
    assert (back / "a" / "big").stat().st_mtime == 10**9
    assert (back / strange).read_text() == "strange"
    assert (back / ("d" * 200) / ("f" * 200)).read_text() == "long"
    assert (back / "link").readlink() == Path("a/big")
    assert (back / "a" / "empty").is_dir()
    assert done == Unpacked(entries=7, size_bytes=1_500_001 + 7 + 4, left_out=("out",))


@pytest.mark.parametrize(
    "members",
    [
        [("/tmp/evil", FILE, "x")],
        [("a/../../evil", FILE, "x")],
        [("l", LINK, "."), ("l/evil", FILE, "x")],
        [("d/l", LINK, ".."), ("d/l/m", LINK, "../outside"), ("d/l/m/evil", FILE, "x")],
        [("l", LINK, "."), ("l/m", LINK, "../outside")],
        [("h", HARD, "../outside/secret")],
        [("d/l", LINK, "../x"), ("h", HARD, "d/l")],
        [("l", LINK, ".."), ("h", HARD, "l/outside/secret")],
        [("f", FILE, "x"), ("f/g", FILE, "x")],
    ],
    ids=[
        "absolute", "climbs", "through a link", "through links", "a link through a link", "hard link out",
        "hard link to a link", "hard link through a link", "file and directory",
    ],
)  # fmt: skip
async def test_a_hostile_archive_is_refused_and_leaves_nothing(
    tmp_path: Path, members: list[tuple[str, bytes, str]]
) -> None:
    """Neither outside of the folder, nor in it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")

    with pytest.raises(InvalidMessage):
        await written(made(*members), tmp_path / "to")

    assert names_in(tmp_path) == ["outside", "to"]
    assert not list((tmp_path / "to").iterdir())
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["secret"]
    assert (tmp_path / "outside" / "secret").stat().st_nlink == 1


@pytest.mark.parametrize(
    ("name", "target", "stays"),
    [
        ("l", "a/b", True),
        ("d/l", "../a", True),
        ("d/e/l", "./../../a//b", True),
        ("l", ".", True),
        ("l", "../a", False),
        ("d/l", "../../a", False),
        ("l", "/etc", False),
        ("l", "x/x/../..", False),
        ("d/l", "../x/../..", False),
        ("l", "..", False),
    ],
)
def test_a_link_stays_inside_only_where_that_is_sure(name: str, target: str, stays: bool) -> None:
    """A `..` behind a name could climb from where another link has led: that is not looked up, it is left out."""
    assert stays_inside(name, target) == stays


async def test_what_is_no_archive_or_would_fill_memory_is_refused(tmp_path: Path) -> None:
    """Random bytes, a compressed one, one that breaks off, a header of a gigabyte."""
    whole = made(("first", FILE, "1" * 2000), ("second", FILE, "2" * 20_000))
    huge = tarfile.TarInfo("x")
    huge.type, huge.size = tarfile.XHDTYPE, 1 << 30
    for content in (b"\x1f\x8b" + os.urandom(3000), whole[:2000], whole[:9000], huge.tobuf()):
        with pytest.raises(InvalidMessage, match="archive"):
            await written(content, tmp_path / "to")
    assert not list((tmp_path / "to").iterdir())


async def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    """A download makes a folder, it does not mix with one."""
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(InvalidMessage, match="not empty"):
        await written(made(("mine", FILE, "other")), tmp_path)
    assert (tmp_path / "mine").read_text() == "mine"


async def test_a_source_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """The object store went away in the middle: no half of a folder that looks like a whole one."""

    async def failing() -> AsyncIterator[bytes]:
        yield made(("first", FILE, "1" * 2000))[:3072]
        raise LookupError("source broke")

    with pytest.raises(LookupError, match="source broke"):
        await unpack(failing(), tmp_path / "to")
    assert not list((tmp_path / "to").iterdir())


async def test_a_folder_that_can_t_be_read_is_named(tmp_path: Path) -> None:
    """And who leaves a stream early ends its thread."""
    with pytest.raises(InvalidMessage, match="nothing here"):
        await packed(tmp_path / "nothing here")
    (tmp_path / "big").write_bytes(bytes(8 << 20))
    async with aclosing(archives.pack(tmp_path)) as pieces:
        assert len(await anext(pieces)) > 0


async def test_members_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways, with the bound's name."""
    monkeypatch.setattr(unpacking.limits, "ARCHIVE_ENTRIES_MAX", 2)
    content = made(*((f"f{n}", FILE, "") for n in range(3)))
    with pytest.raises(LimitExceeded, match="ARCHIVE_ENTRIES_MAX"):
        await written(content, tmp_path / "to")
    for n in range(3):
        (tmp_path / f"f{n}").touch()
    with pytest.raises(LimitExceeded, match="ARCHIVE_ENTRIES_MAX"):
        archives.measure(tmp_path)
