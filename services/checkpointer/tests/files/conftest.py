"""Workspaces of these tests: real directories, hostile neighbours that are real processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from checkpointer.adapters.files import linux
from checkpointer.adapters.files.folders import OpenFolders
from checkpointer.adapters.files.restore import TreeWriter
from checkpointer.adapters.files.room import clear
from checkpointer.adapters.files.scan import scan
from checkpointer.core.listings import Stat
from checkpointer.core.scans import Look, Scan
from shared.testing.ordinary import ORDINARY_UID

READY_S = 20.0


class Tree:
    """A workspace's directory and its descriptor."""

    def __init__(self, path: Path) -> None:
        """Open it; it exists."""
        self.path = path
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        self.folders = OpenFolders(self.fd)

    def close(self) -> None:
        """Close it."""
        self.folders.close()
        os.close(self.fd)

    def write(self, name: str, data: bytes = b"x") -> Path:
        """Write a file, its directories too."""
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        return file

    def scan(self, **look: Any) -> Scan:
        """Scan it."""
        return scan(self.fd, Look(**look))

    def stats(self, **look: Any) -> dict[bytes, Stat]:
        """Scan it; return the signature of each path."""
        return {
            folder.path + b"/" + name if folder.path else name: stat
            for folder in self.scan(**look).folders
            for name, stat in folder.listing.entries()
        }

    def dig(self, names: list[bytes]) -> None:
        """Make directories in one another, and a file at the bottom, by descriptors."""
        at = os.dup(self.fd)
        for name in names:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=at)
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
            os.close(at)
            at = below
        os.close(os.open(b"bottom", os.O_CREAT | os.O_WRONLY, dir_fd=at))
        os.close(at)

    def settled(self) -> Scan:
        """Scan it until nothing is racy any more."""
        deadline = time.monotonic() + 10
        while True:
            seen = self.scan()
            if not any(folder.unsettled for folder in seen.folders):
                return seen
            assert time.monotonic() < deadline


@pytest.fixture
def make_tree(tmp_path: Path) -> Iterator[Callable[[str], Tree]]:
    """Make workspaces by name."""
    with contextlib.ExitStack() as stack:

        def make(name: str) -> Tree:
            place = tmp_path / name
            place.mkdir(exist_ok=True)
            tree = Tree(place)
            stack.callback(tree.close)
            stack.callback(clear, tree.fd)  # the test's own cleaning can't: it recurses
            return tree

        yield make


@pytest.fixture
def tree(make_tree: Callable[[str], Tree]) -> Tree:
    """An empty workspace."""
    return make_tree("workspace")


@pytest.fixture
def make_writer(tree: Tree) -> Iterator[Callable[[], TreeWriter]]:
    """Begin a restore into the workspace, as who and what it is at that moment."""
    with contextlib.ExitStack() as stack:

        def begin() -> TreeWriter:
            writer = TreeWriter(tree.fd)
            stack.callback(writer.close)
            return writer

        yield begin


@pytest.fixture
def writer(make_writer: Callable[[], TreeWriter]) -> TreeWriter:
    """A restore into the workspace."""
    return make_writer()


@pytest.fixture(params=["openat2", "each component"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open by openat2, and as where it lacks."""
    if request.param == "openat2":
        assert linux.has_openat2()
    else:
        monkeypatch.setattr(linux, "has_openat2", lambda: False)


@pytest.fixture
def memory_tree() -> Iterator[Tree]:
    """An empty workspace on tmpfs."""
    place = Path(f"/dev/shm/workspace-{os.getpid()}")
    place.mkdir()
    tree = Tree(place)
    yield tree
    tree.close()
    subprocess.run(["rm", "-rf", place], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Tree]:
    """A workspace with room for one mebibyte and 64 entries."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=64", "small", place]
    subprocess.run(mount, check=True)
    tree = Tree(place)
    yield tree
    tree.close()
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def root_only() -> None:
    """Skip where only root can show it."""
    if os.geteuid() != 0:
        pytest.skip("needs root")


@pytest.fixture
def as_user(root_only: None) -> Iterator[Callable[[], contextlib.AbstractContextManager[None]]]:
    """Be an ordinary user for a block; what is made there belongs to it."""

    @contextlib.contextmanager
    def become() -> Iterator[None]:
        groups = os.getgroups()
        os.setgroups([])
        os.setegid(ORDINARY_UID)
        os.seteuid(ORDINARY_UID)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)
            os.setgroups(groups)

    yield become
    assert os.geteuid() == 0


@pytest.fixture
def neighbour(tmp_path: Path) -> Iterator[Callable[[str, Path], None]]:
    """Run a hostile program beside the test: statements that are repeated in a directory until the test ends."""
    started: list[subprocess.Popen[bytes]] = []

    def start(statements: str, where: Path) -> None:
        ready = tmp_path / f"ready-{len(started)}"
        body = "\n    ".join(statements.strip().splitlines())
        program = f"import os, mmap, itertools, contextlib\nfor n in itertools.count():\n    {body}\n    if n == 3: open({str(ready)!r}, 'w').close()\n"
        started.append(subprocess.Popen([sys.executable, "-c", program], cwd=where))
        deadline = time.monotonic() + READY_S
        while not ready.exists():
            assert started[-1].poll() is None, "the neighbour failed"
            assert time.monotonic() < deadline
            time.sleep(0.005)

    yield start
    for process in started:
        failed = process.poll()
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert failed is None, "the neighbour failed"
