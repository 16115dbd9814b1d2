"""Whole directories as tar archives, by a real runner: out and in again, and what hostile archives try."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from worker_agent.adapters.runner import FileFailed

Fill = Callable[[tarfile.TarFile], None]
LONG = "/".join(["d" * 120] * 5) + "/" + "f" * 200
STRANGE = b"caf\xe9 \xf0\x9f\x90\x8d\n".decode("utf-8", "surrogateescape")


async def pieces(content: bytes, size: int = 100_000) -> AsyncIterator[bytes]:
    """Give content bit by bit."""
    for at in range(0, len(content), size):
        yield content[at : at + size]


async def packed(runner: Any, path: str = ".") -> bytes:
    """Return a directory as an archive."""
    taken = bytearray()

    async def sink(data: bytes) -> None:
        taken.extend(data)

    done = await runner.channel.files.archive(path, sink)
    measured = await runner.channel.files.archive(path, sink, measure=True)
    assert (
        (measured.size, measured.entries) == (done.size, done.entries) == (len(taken), done.entries)
    )
    return bytes(taken)


async def unpack(runner: Any, content: bytes, path: str = ".", entries_max: int = 100) -> int:
    """Write an archive's members; return how many."""
    done = await runner.channel.files.extract(path, pieces(content), entries_max=entries_max)
    return int(done.entries)


def made(fill: Fill, form: int = tarfile.PAX_FORMAT) -> bytes:
    """Return an archive."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form, errors="surrogateescape") as archive:
        fill(archive)
    return file.getvalue()


def member(name: str, content: bytes = b"", **fields: Any) -> Fill:
    """Return what adds one member."""

    def fill(archive: tarfile.TarFile) -> None:
        head = tarfile.TarInfo(name)
        head.size = len(content)
        for field, value in fields.items():
            setattr(head, field, value)
        archive.addfile(head, io.BytesIO(content))

    return fill


def both(*fills: Fill) -> Fill:
    """Return what adds several."""

    def fill(archive: tarfile.TarFile) -> None:
        for one in fills:
            one(archive)

    return fill


async def test_a_tree_goes_out_and_in_again(any_runner: Any, tmp_path: Path) -> None:
    """Contents, modes, times, links, strange and long names; what is no file is left out, set-id bits are not taken."""
    tree = any_runner.workspace / "tree"
    (tree / "a" / "empty").mkdir(parents=True)
    (tree / "a" / "big").write_bytes(content := os.urandom(300_001))
    (tree / "a" / "tool").write_text("x")
    (tree / "a" / "tool").chmod(0o4750)
    os.utime(tree / "a" / "tool", (1_000_000_000, 1_000_000_000))
    os.link(tree / "a" / "big", tree / "same")
    (tree / "link").symlink_to("a/tool")
    (tree / "away").symlink_to("/etc/passwd")
    (tree / STRANGE).write_text("strange")
    (tree / LONG).parent.mkdir(parents=True)
    (tree / LONG).write_text("long")
    os.mkfifo(tree / "pipe")
    (tree / ".sandbox-part-0123").write_text("left over")

    archive = await packed(any_runner, "tree")
    with tarfile.open(fileobj=io.BytesIO(archive), errors="surrogateescape") as read:
        names = read.getnames()
    entries = await unpack(any_runner, archive, "back")

    back = any_runner.workspace / "back"
    assert entries == len(names)
    assert "pipe" not in names
    assert (back / "a" / "big").read_bytes() == (back / "same").read_bytes() == content
    assert (back / "a" / "big").samefile(back / "same")
    assert stat.S_IMODE((back / "a" / "tool").stat().st_mode) == 0o750
    assert (back / "a" / "tool").stat().st_mtime == 1_000_000_000
    assert (back / "link").readlink() == Path("a/tool")
    assert (back / "away").readlink() == Path("/etc/passwd")
    assert (back / STRANGE).read_text() == "strange"
    assert (back / LONG).read_text() == "long"
    assert (back / "a" / "empty").is_dir()
    assert sorted(path.name for path in back.iterdir()) == sorted(
        {name.split("/")[0] for name in names}
    ), "nothing else, no half of a file"


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
async def test_each_form_of_tar_is_read(runner: Any, form: int) -> None:
    """Long names are written in three ways; padding behind the end means nothing."""
    name = "/".join(["d" * 60] * 3)
    await unpack(runner, made(member(name, b"content"), form) + bytes(50_000), "in")
    if form != tarfile.USTAR_FORMAT:
        await unpack(
            runner,
            made(
                both(member(LONG, b"long"), member("s", type=tarfile.SYMTYPE, linkname=LONG)), form
            ),
        )
        assert (runner.workspace / "s").read_text() == "long"

    assert (runner.workspace / "in" / name).read_text() == "content"


async def test_what_is_there_is_replaced_and_the_rest_stays(runner: Any) -> None:
    """A link of the same name is replaced, not written through; a directory's right to be written stays its owner's."""
    inside = runner.workspace / "in"
    inside.mkdir()
    (inside / "kept").write_text("kept")
    (inside / "old").write_text("old")
    (inside / "link").symlink_to("kept")

    fills = [
        member("old", b"new"),
        member("link", b"file now"),
        member("d", type=tarfile.DIRTYPE, mode=0o500),
    ]
    await unpack(runner, made(both(*fills, member("d/f", b"below"))), "in")

    found = {
        str(path.relative_to(inside)): path.read_text()
        for path in inside.rglob("*")
        if path.is_file()
    }
    assert found == {"kept": "kept", "old": "new", "link": "file now", "d/f": "below"}
    assert stat.S_IMODE((inside / "d").stat().st_mode) == 0o700


HOSTILE: dict[str, tuple[Fill, str, str]] = {
    "absolute": (member("/tmp/evil", b"x"), "outside_workspace", "/tmp/evil"),
    "climbs": (member("a/../../../evil", b"x"), "outside_workspace", "a/../../../evil"),
    "through its own link": (
        both(member("l", type=tarfile.SYMTYPE, linkname="{outside}"), member("l/evil", b"x")),
        "outside_workspace",
        "l is a symbolic link",
    ),
    "through a relative link": (
        both(member("l", type=tarfile.SYMTYPE, linkname="../../.."), member("l/evil", b"x")),
        "outside_workspace",
        "in/l/evil",
    ),
    "hard link out": (
        member("h", type=tarfile.LNKTYPE, linkname="../../secret"),
        "outside_workspace",
        "secret",
    ),
    "hard link through a link": (
        both(
            member("l", type=tarfile.SYMTYPE, linkname="{outside}"),
            member("h", type=tarfile.LNKTYPE, linkname="l/secret"),
        ),
        "outside_workspace",
        "l is a symbolic link",
    ),
    "device": (
        member("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
        "invalid_archive",
        "null",
    ),
    "pipe": (member("pipe", type=tarfile.FIFOTYPE), "invalid_archive", "pipe"),
    "sparse": (
        member("s", b"x", pax_headers={"GNU.sparse.major": "1"}),
        "invalid_archive",
        "sparse",
    ),
    "name of a directory": (both(member("d/f", b"x"), member("d", b"x")), "is_a_directory", "d"),
    "name too long": (member("n" * 256, b"x"), "invalid_path", "n" * 100),
    "zero in a name": (member("a", b"x", pax_headers={"path": "a\0b"}), "invalid_path", "a"),
    "deep": (member("d/" * 3000 + "f", b"x"), "invalid_path", "4096"),
    "strange size": (member("a", b"x", pax_headers={"size": "1e9"}), "invalid_archive", "1e9"),
    "huge size": (
        member("a", b"x", pax_headers={"size": str(1 << 50)}),
        "invalid_archive",
        "breaks off",
    ),
    "huge time": (
        both(member("a", b"x", mtime=1 << 40), member("../b")),
        "outside_workspace",
        "../b",
    ),
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_a_hostile_member_is_refused_by_name_and_nothing_outside_is_touched(
    runner: Any, tmp_path: Path, what: str
) -> None:
    """Whatever it tries: the sandbox side walks each name itself. The runner lives on and leaves no half of a file."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    fill, code, named = HOSTILE[what]

    def placed(archive: tarfile.TarFile) -> None:
        add = archive.addfile

        def addfile(head: tarfile.TarInfo, content: Any) -> None:
            head.linkname = head.linkname.replace("{outside}", str(outside))
            add(head, content)

        archive.addfile = addfile  # type: ignore[method-assign, assignment]  # each archive of this test is its own
        fill(archive)

    with pytest.raises(FileFailed) as refused:
        await unpack(runner, made(placed), "in")

    assert refused.value.reason == code
    assert named in str(refused.value)
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").stat().st_nlink == 1
    assert not [
        path for path in runner.workspace.rglob("*") if path.name.startswith(".sandbox-part")
    ]
    assert (await runner.shell("true")).exit.exit_code == 0


async def test_what_is_no_archive_or_breaks_off_is_refused(runner: Any) -> None:
    """At each place where it may: in a header, in a content, before the end; also compressed, or empty."""
    whole = made(both(member("first", b"1" * 2000), member(LONG, b"2" * 2000)))
    for cut in (0, 100, 512, 1000, 2559, 2560, 4000, 6000):
        with pytest.raises(FileFailed, match="breaks off") as refused:
            await unpack(runner, whole[:cut], f"cut-{cut}")
        assert refused.value.reason == "invalid_archive"
    for strange in (b"\x1f\x8b" + os.urandom(2000), os.urandom(5000), b"<html>" * 1000):
        with pytest.raises(FileFailed, match="no tar archive"):
            await unpack(runner, strange)

    assert (runner.workspace / "cut-4000" / "first").read_bytes() == b"1" * 2000
    assert not (runner.workspace / "cut-1000" / "first").exists()


async def test_members_are_counted_and_bounded(runner: Any) -> None:
    """One too many is refused; a tree that is too deep for descriptors likewise, with its path."""
    with pytest.raises(FileFailed, match="more than 3 members") as refused:
        await unpack(runner, made(both(*(member(f"f{n}") for n in range(4)))), entries_max=3)
    (runner.workspace / ("d/" * 300)).mkdir(parents=True)
    try:
        with pytest.raises(FileFailed, match="directories deep") as deep:
            await packed(runner)
    finally:  # whoever clears up after the tests would not come so deep
        await runner.channel.files.remove("d", recursive=True)

    assert refused.value.reason == deep.value.reason == "limit_exceeded"


async def test_what_cannot_be_archived_is_said(runner: Any) -> None:
    """Nothing there, a pipe, a place outside."""
    os.mkfifo(runner.workspace / "pipe")
    (runner.workspace / "out").symlink_to("/etc")
    for path, code in (("none", "not_found"), ("pipe", "not_a_file"), ("out", "outside_workspace")):
        with pytest.raises(FileFailed) as refused:
            await packed(runner, path)
        assert refused.value.reason == code
