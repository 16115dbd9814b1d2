"""Whole directories, on each way to a cluster."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from agent_sandbox import NotFound, TaskFailed

SIZE = 3 << 20


def sample(folder: Path) -> dict[str, bytes]:
    """Fill a folder; return what is in its files."""
    contents = {"a.txt": b"text", "deep/er/b.bin": bytes(range(256)) * (SIZE // 256), "empty": b""}
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "link").symlink_to("deep/er/b.bin")
    return contents


def found(folder: Path) -> dict[str, bytes]:
    """Return what is in a folder's files."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


async def test_a_folder_goes_into_the_workspace_and_comes_back(caller: Any, tmp_path: Path) -> None:
    """Byte for byte, with its links and progress to the whole; as a stream of tar as well; what is hostile is said."""
    local, back = tmp_path / "local", tmp_path / "back"
    contents = sample(local)
    moved: list[int] = []
    async with await caller.create_session() as session:
        await session.upload_tree(local, "in", on_progress=lambda done, _: moved.append(done))
        seen = await session.exec("cat in/link | wc -c; echo made >> in/deep/made; ls in")
        done = await session.download_tree("in", back)
        whole = io.BytesIO()
        none = await session.download_tree(".", whole)
        hostile = io.BytesIO()
        with tarfile.open(fileobj=hostile, mode="w") as archive:
            archive.addfile(tarfile.TarInfo("../evil"))
        hostile.seek(0)
        with pytest.raises(TaskFailed, match=r"\.\./evil") as refused:
            await session.upload_tree(hostile, "in")

    assert seen.stdout.split() == [str(SIZE), "a.txt", "deep", "empty", "link"]
    assert found(back) == {**contents, "deep/made": b"made\n"}
    assert (back / "link").readlink() == Path("deep/er/b.bin")
    assert (done.entries, done.left_out) == (7, ())
    assert none is None
    whole.seek(0)
    with tarfile.open(fileobj=whole) as read:
        assert "in/deep/er/b.bin" in read.getnames()
    assert moved == sorted(moved)
    assert moved[-1] > SIZE
    assert refused.value.result.reason == "file"


async def test_a_folder_comes_back_as_it_was_at_a_snapshot(caller: Any, tmp_path: Path) -> None:
    """While the session goes on; nothing is left of what was made for it."""
    async with await caller.create_session() as session:
        await session.exec("mkdir d; echo then > d/file")
        (then, *_) = await session.snapshots()
        await session.exec("echo now > d/file; echo more > d/more")
        done = await session.download_tree("d", tmp_path / "then", snapshot=then.id)
        await session.download_tree("d", tmp_path / "now")
        with pytest.raises(NotFound):
            await session.download_tree("d", tmp_path / "none", snapshot="no-such-name")

    assert found(tmp_path / "then") == {"file": b"then\n"}
    assert found(tmp_path / "now") == {"file": b"now\n", "more": b"more\n"}
    assert done.entries == 1
