"""What the node tells a worker about its pod, and the marker that keeps a used pod from serving again."""

from __future__ import annotations

from pathlib import Path

import msgspec

from shared.messages import PodSpec
from worker_agent.core.results import Place
from worker_agent.settings import WorkerSettings

MARKER = "used"


class SandboxFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The sandbox as the kernel of the node sees it."""

    pid: int
    """Host pid of the runner."""
    isolation: str
    """The class that it really has."""
    cgroup_memory: str | None = None
    """Folder of its memory cgroup, where it has one."""
    watch: tuple[str, ...] = ()
    """Limits that the kernel does not enforce here: `memory`, `pids`, `disk`."""


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """One pod."""

    spec: PodSpec
    folder: Path
    sandbox: SandboxFacts
    settings: WorkerSettings

    @property
    def place(self) -> Place:
        """Where its tasks run."""
        return Place(
            worker=self.spec.pod, node=self.spec.node, isolation=self.sandbox.isolation
        )

    @property
    def workspace(self) -> Path:
        """The session's directory as the node sees it."""
        return self.folder / "workspace"

    def mark_used(self) -> bool:
        """Write the marker; return False if it was there: this pod has served before and must end."""
        try:
            (self.folder / MARKER).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True
