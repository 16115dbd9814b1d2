"""What a scan refuses, and what it leaves out."""

from __future__ import annotations

import os
import stat
from typing import Any

import pytest

from checkpointer.adapters.files import linux
from checkpointer.core.excludes import Excludes
from shared import limits
from shared.errors import LimitExceeded


@pytest.mark.usefixtures("both_ways")
def test_a_path_longer_than_the_kernel_takes_is_scanned_to_its_end(tree: Any) -> None:
    """Made by descriptors; walks by path see a third of it and say nothing."""
    tree.dig([b"d" * 200] * 60)

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
    tree.dig(names[:-1])
    assert tree.scan().entries == len(names)
    tree.dig(names)

    with pytest.raises(LimitExceeded, match="d/") as refused:
        tree.scan()
    assert said in str(refused.value)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    ("bound", "value", "said"),
    [
        ("WORKSPACE_ENTRIES_MAX", 3, "in: the workspace has more than 3 entries"),
        ("WORKSPACE_PATHS_BYTES_MAX", 20, "in: all paths together have more than 20 bytes"),
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
@pytest.mark.pure
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


def test_neighbours_far_down_are_opened_from_their_parent(
    tree: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a hundred thousand directories at the bottom of a deep tree would take hours."""
    tree.dig([b"d"] * 200)
    bottom = b"/".join([b"d"] * 200)
    below = linux.open_beneath(tree.fd, bottom, linux.DIRECTORY)
    for number in range(100):
        os.mkdir(b"%d" % number, dir_fd=below)
    os.close(below)
    steps: list[int] = []
    open_beneath = linux.open_beneath

    def counting(at: int, path: bytes, flags: int) -> int:
        steps.append(path.count(b"/") + 1)
        return open_beneath(at, path, flags)

    monkeypatch.setattr(linux, "open_beneath", counting)

    assert tree.scan().entries == 301
    assert sum(steps) <= 2 * 301
