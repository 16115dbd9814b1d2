"""What the node tells a worker about its pod, and the marker that keeps a used pod from serving again."""

from __future__ import annotations

from pathlib import Path

import msgspec

from shared.messages import PodSpec
from worker_agent.core.results import Place
from worker_agent.settings import WorkerSettings

MARKER = "used"


class SandboxFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The sandbox as its node started it (`sandbox` in what the node hands over)."""

    isolation: str
    """The class that it really has."""
    workspace: str
    """The session's directory on the node."""
    enforced: tuple[str, ...] = ()
    """Limits that the kernel holds."""
    watch: tuple[str, ...] = ()
    """Limits that nobody else holds: of `memory`, `pids`, `disk`."""
    pid: int = 0
    """The runner's pid on the node."""
    memory_cgroup: str | None = None
    """Folder of its memory cgroup, where it has one."""


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """One pod."""

    spec: PodSpec
    folder: Path
    sandbox: SandboxFacts
    settings: WorkerSettings

    @property
    def place(self) -> Place:
        """Where its tasks run."""
        return Place(worker=self.spec.pod, node=self.spec.node, isolation=self.sandbox.isolation)

    def mark_used(self) -> bool:
        """Write the marker; return False if it was there: this pod has served before and must end."""
        try:
            (self.folder / MARKER).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True
