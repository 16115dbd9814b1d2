"""Entry point of a worker: called in a child that a zygote has forked."""

from __future__ import annotations

import asyncio
import gc
import os
from typing import Any

from worker_agent.life import live
from worker_agent.pod import read_pod


def run_forked(
    spec: dict[str, Any], channel_fd: int, pod_dir: str, sandbox_pid: int, cgroup: str | None
) -> int:
    """Be the sidecar of one pod until its session is over; the process ends with its exit code.

    Args:
        spec: the pod's spec, and under `sandbox` what the node says about the sandbox that it started.
        channel_fd: connected socket to the runner.
        pod_dir: the pod's own folder.
        sandbox_pid: the runner's pid on this node.
        cgroup: folder of the sandbox's memory cgroup, if it has one.

    Raises:
        msgspec.ValidationError: the node and this worker are of different versions.
        shared.settings.SettingsError: the pool's settings can't be used.
    """
    pod = read_pod(spec, pod_dir, sandbox_pid, cgroup)
    # What lives as long as the worker is not looked at again by the collector, which would copy its pages.
    gc.freeze()
    code = asyncio.run(live(pod, channel_fd))
    # Nothing is left to clean up that the process's end does not: the interpreter's own takes 10 ms and its pages.
    os._exit(code)
