"""What is measured: our pipelines, restic, and `tar | zstd -1`, each by the same four steps."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Protocol

import msgspec
from harness.running import CannotMeasure

from shared.workspace import SnapshotRef
from snapshot_parts.child import Cost

STEP_S = 900.0


class Tool(Protocol):
    """Saves and restores one workspace."""

    name: str

    def save(self) -> Cost:
        """Save it as it is now."""
        ...

    def restore(self, target: Path) -> Cost:
        """Write what was saved last into an empty folder."""
        ...

    def stored_bytes(self) -> int:
        """Return what lies in its store."""
        ...


class Ours:
    """The checkpointer's pipelines on a local store."""

    name = "agent-sandbox"

    def __init__(self, workspace: Path, base: Path) -> None:
        """Use a store below `base`."""
        self._workspace, self._base = workspace, base
        self._ref: SnapshotRef | None = None

    def save(self) -> Cost:
        """See `Tool`."""
        cost = self._run("save", self._workspace, "cache")
        self._ref = cost.ref
        return cost

    def restore(self, target: Path) -> Cost:
        """See `Tool`."""
        return self._run("restore", target, "other-cache")

    def stored_bytes(self) -> int:
        """See `Tool`."""
        return size_of(self._base / "ours")

    def _run(self, verb: str, place: Path, cache: str) -> Cost:
        program = Path(__file__).with_name("child.py")
        words = [sys.executable, program, verb, place, self._base / "ours", self._base / cache]
        if self._ref is not None:
            words.append(msgspec.json.encode(self._ref).decode())
        path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [str(word) for word in words], capture_output=True, timeout=STEP_S, check=False,
            env=os.environ | {"PYTHONPATH": path},
        )  # fmt: skip
        if done.returncode:
            raise CannotMeasure(f"{verb}: {done.stderr.decode(errors='replace')[-800:]}")
        return msgspec.json.decode(done.stdout, type=Cost)


class Restic:
    """restic, as its users run it: a process for each step, data encrypted."""

    name = "restic"

    def __init__(self, workspace: Path, base: Path) -> None:
        """Make a repository below `base`."""
        self._workspace, self._repository = workspace, base / "restic"
        self._environment = os.environ | {
            "RESTIC_PASSWORD": "bench", "RESTIC_CACHE_DIR": str(base / "restic-cache"),
            "RESTIC_REPOSITORY": str(self._repository),
        }  # fmt: skip
        self._run("init", "--repository-version", "2")

    @staticmethod
    def is_here() -> bool:
        """Return whether it is installed."""
        return shutil.which("restic") is not None

    def save(self) -> Cost:
        """See `Tool`."""
        return self._run("backup", ".")

    def restore(self, target: Path) -> Cost:
        """See `Tool`."""
        return self._run("restore", "latest", "--target", str(target))

    def stored_bytes(self) -> int:
        """See `Tool`."""
        return size_of(self._repository)

    def _run(self, *words: str) -> Cost:
        return measure(["restic", "-q", *words], self._workspace, self._environment)


class Tar:
    """`tar | zstd -1`: all of it, each time."""

    name = "tar | zstd -1"

    def __init__(self, workspace: Path, base: Path) -> None:
        """Write one archive below `base`."""
        self._workspace, self._archive = workspace, base / "archive.tar.zst"

    def save(self) -> Cost:
        """See `Tool`."""
        line = f"tar -cf - . | zstd -1 -q -f -o {self._archive}"
        return measure(["sh", "-c", line], self._workspace)

    def restore(self, target: Path) -> Cost:
        """See `Tool`."""
        return measure(["sh", "-c", f"zstd -dcq {self._archive} | tar -xf -"], target)

    def stored_bytes(self) -> int:
        """See `Tool`."""
        return self._archive.stat().st_size


def measure(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> Cost:
    """Run a command with all of its children; return what it cost.

    Raises:
        CannotMeasure: it failed.
    """
    before, began = os.times(), time.monotonic()
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, timeout=STEP_S, check=False
    )
    after = os.times()
    if done.returncode:
        raise CannotMeasure(f"{command[0]}: {done.stderr.decode(errors='replace').strip()[-400:]}")
    user_s = after.children_user - before.children_user
    system_s = after.children_system - before.children_system
    return Cost(user_s + system_s, time.monotonic() - began, 0)


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())
