"""Entry point of a worker: called in a child that a zygote has forked."""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path
from typing import Any

import msgspec

from shared import logs, service
from shared.messages import PodSpec
from shared.service import Stop
from shared.settings import load
from worker_agent import app
from worker_agent.adapters.sandbox import RunnerSandbox
from worker_agent.pod import Pod, SandboxFacts
from worker_agent.settings import WorkerSettings

PREFIX = "WORKER_"
DRAIN_S = 30.0
"""Longest orderly end; the node's own grace may be shorter."""


def run_forked(
    spec: dict[str, Any], channel_fd: int, pod_dir: str, sandbox_pid: int, cgroup: str | None
) -> int:
    """Be the sidecar of one pod until its session is over; return the exit code.

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
    facts = {**spec.pop("sandbox"), "pid": sandbox_pid, "memory_cgroup": cgroup}
    pod_spec = msgspec.convert(spec, PodSpec)
    pod = Pod(
        spec=pod_spec,
        folder=Path(pod_dir),
        sandbox=msgspec.convert(facts, SandboxFacts),
        settings=load(WorkerSettings, PREFIX, pod_spec.settings),
    )
    logs.configure(service="worker-agent", level=pod.settings.log_level, instance=pod_spec.pod)
    # What lives as long as the worker is not looked at again by the collector, which would copy its pages.
    gc.freeze()

    async def serve(stop: Stop) -> None:
        await app.serve(pod, RunnerSandbox.open(channel_fd, pod), stop)

    code = asyncio.run(service.run(serve, drain_s=DRAIN_S))
    # Nothing is left to clean up that the process's end does not: the interpreter's own takes 10 ms and its pages.
    os._exit(code)
