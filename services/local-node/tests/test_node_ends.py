"""However a node ends, nothing of it stays: not its pods, not what they started, not its groups."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from drill import exists, is_there, make_folder, open_drill, processes_with, until

from shared.errors import Conflict

NODE_PROGRAM = str(Path(__file__).parent / "kit" / "drill_node.py")


class RunningNode:
    """A node in a process of its own, with a pod of each class."""

    def __init__(self, folder: Path, mark: str, python: str) -> None:
        """Start it and wait until all is up."""
        self.mark = mark
        self.process = subprocess.Popen(
            [sys.executable, NODE_PROGRAM, str(folder / "node"), mark, python],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:  # log lines come first
            if '"classes"' in line:
                self.facts: dict[str, Any] = json.loads(line)
                break
        else:
            raise AssertionError(f"the node ended with {self.process.wait(10)}")

    @property
    def pids(self) -> list[int]:
        """Everything that belongs to the node but itself."""
        return [
            *self.facts["pids"],
            *self.facts["keepers"],
            *self.facts["zygotes"],
            *self.marked,
        ]

    @property
    def marked(self) -> list[int]:
        """What the pods have started."""
        return [pid for pid in processes_with(self.mark) if pid != self.process.pid]

    def close(self) -> None:
        """End it the hard way."""
        self.process.kill()
        self.process.wait(10)
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where a node may be started more than once."""
    path = make_folder()
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def node(folder: Path, everybodys_python: str) -> Iterator[RunningNode]:
    """A node in a process of its own."""
    running = RunningNode(folder, f"16180{os.getpid()}", everybodys_python)
    yield running
    running.close()


async def test_a_killed_node_leaves_no_process(node: RunningNode) -> None:
    """kill -9: zygotes, sidecars, sandboxes and what they started go, in every class."""
    before = node.pids
    assert all(is_there(pid) for pid in before)
    assert len(before) >= 4 * len(node.facts["classes"]) + 2

    node.process.kill()
    node.process.wait(10)

    assert await until(lambda: not any(is_there(pid) for pid in before))
    assert await until(lambda: node.marked == [])


async def test_a_killed_zygote_takes_its_pods_along(node: RunningNode) -> None:
    """Whichever zygote dies: its children die with it, and what these have started."""
    before = node.pids
    for pid in node.facts["zygotes"]:
        os.kill(pid, signal.SIGKILL)

    assert await until(lambda: not any(is_there(pid) for pid in before))
    assert await until(lambda: node.marked == [])


async def test_a_killed_keeper_changes_nothing_at_once(node: RunningNode) -> None:
    """Pods go on, and still end with their node."""
    before = node.pids
    for pid in node.facts["keepers"]:
        os.kill(pid, signal.SIGKILL)

    assert await until(lambda: not any(is_there(pid) for pid in node.facts["keepers"]))
    assert all(is_there(pid) for pid in node.facts["pids"])
    node.process.kill()
    node.process.wait(10)
    assert await until(lambda: not any(is_there(pid) for pid in before))


async def test_the_next_node_clears_what_a_killed_one_left(
    node: RunningNode, folder: Path, everybodys_python: str
) -> None:
    """Pod directories and control groups of the former process are gone; names are free again."""
    node.process.kill()
    node.process.wait(10)
    left = [path for path in node.facts["cgroups"] if exists(path)]
    assert len(left) == len(node.facts["cgroups"])

    async with open_drill(folder=str(folder / "node"), sandbox_python=everybodys_python) as drill:
        assert not any(exists(path) for path in left)
        for isolation in node.facts["classes"]:
            pod = await drill.start(f"stays-{isolation}", isolation)
            assert await pod.answers()
        await drill.machine.files.empty_trash()
        assert list((folder / "node" / "trash").iterdir()) == []
    groups = {Path(path).parent for path in left}
    assert not any(exists(group) for group in groups)


async def test_two_nodes_never_share_a_folder(node: RunningNode, folder: Path) -> None:
    """The second one is told."""
    with pytest.raises(Conflict, match="another node runs"):
        async with open_drill(folder=str(folder / "node")):
            pass
    assert node.process.poll() is None
