"""One worker's life in its process: logs and signals."""

from __future__ import annotations

from shared import logs, service
from shared.service import Stop
from worker_agent import app
from worker_agent.adapters.sandbox import RunnerSandbox
from worker_agent.pod import Pod

log = logs.get(__name__)

DRAIN_S = 30.0
"""Longest orderly end; the node's own grace may be shorter."""


async def live(pod: Pod, channel_fd: int) -> int:
    """Be the sidecar of `pod` until its session is over; return the exit code.

    Args:
        pod: whose sidecar this is.
        channel_fd: connected socket to the runner.
    """
    logs.configure(service="worker-agent", level=pod.settings.log_level, instance=pod.spec.pod)

    async def serve(stop: Stop) -> None:
        if not pod.mark_used():
            log.warning("pod.used_before", pod=pod.spec.pod)
            return
        await app.serve(pod, RunnerSandbox.open(channel_fd, pod), stop)

    return await service.run(serve, drain_s=DRAIN_S)
