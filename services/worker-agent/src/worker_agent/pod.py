"""What the node tells a worker about its pod, and the marker that keeps a used pod from serving again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from shared.bus.types import Tls
from shared.messages import PodSpec
from shared.settings import load
from worker_agent.core.results import Place
from worker_agent.marker import mark_used
from worker_agent.settings import WorkerSettings

PREFIX = "WORKER_"
"""Of the worker's settings in its pod's spec."""


class SandboxFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The sandbox as its node started it (`sandbox` in what the node hands over)."""

    isolation: str
    """The class that it really has."""
    workspace: str
    """The session's directory on the node."""
    scratch: str | None = None
    """Another folder on the node that it may fill, part of the disk limit."""
    enforced: tuple[str, ...] = ()
    """Limits that the kernel holds."""
    watch: tuple[str, ...] = ()
    """Limits that nobody else holds: of `memory`, `pids`, `disk`."""
    niceness: int = 0
    """Of its processes while a task runs."""
    pid: int = 0
    """The runner's pid on the node."""
    in_container: bool = False
    """It runs in a container of its own: its processes are out of the sidecar's sight."""
    checkpointer: bool = False
    """The node has a checkpointer: it restores and saves the workspace. Without one nothing is saved here."""
    network: str = ""
    """`loopback` or `none`, where the sandbox's own first process says so."""
    memory_cgroup: str | None = None
    """Folder of its memory cgroup, where it has one."""


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """One pod."""

    spec: PodSpec
    folder: Path
    sandbox: SandboxFacts
    settings: WorkerSettings
    tls: Tls | None = None
    """How the servers prove who they are; None: they need not."""

    @property
    def place(self) -> Place:
        """Where its tasks run."""
        return Place(worker=self.spec.pod, node=self.spec.node, isolation=self.sandbox.isolation)

    def mark_used(self) -> bool:
        """Write the marker; return False if it was there: this pod has served before and must end."""
        return mark_used(str(self.folder))


def read_pod(spec: dict[str, Any], pod_dir: str, sandbox_pid: int, cgroup: str | None) -> Pod:
    """Return the pod that a node describes.

    Args:
        spec: the pod's spec, and under `sandbox` what the node says about the sandbox that it started.
        pod_dir: the pod's own folder.
        sandbox_pid: the runner's pid on this node.
        cgroup: folder of the sandbox's memory cgroup, if it has one.

    Raises:
        msgspec.ValidationError: the node and this worker are of different versions.
        shared.settings.SettingsError: the pool's settings can't be used.
    """
    facts = {**spec["sandbox"], "pid": sandbox_pid, "memory_cgroup": cgroup}
    pod_spec = msgspec.convert(spec, PodSpec)
    return Pod(
        spec=pod_spec,
        folder=Path(pod_dir),
        sandbox=msgspec.convert(facts, SandboxFacts),
        settings=load(WorkerSettings, PREFIX, pod_spec.settings),
    )
