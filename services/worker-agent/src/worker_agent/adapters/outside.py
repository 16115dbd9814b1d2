"""The worker's connection, and who looks at it from outside."""

from __future__ import annotations

import importlib
from contextlib import AbstractAsyncContextManager, nullcontext

from shared.bus import Bus, BusOptions
from worker_agent.pod import Pod

PING_WARM_S = 10.0
"""Idle, a worker costs next to nothing; a lost server shows at the next bell or beat."""


def probed(pod: Pod, bus: Bus) -> AbstractAsyncContextManager[None]:
    """Answer probes meanwhile, where that is wished; an idle worker elsewhere does not carry what it takes."""
    if pod.settings.probes is None:
        return nullcontext()
    probes = importlib.import_module("worker_agent.adapters.probes")
    answering: AbstractAsyncContextManager[None] = probes.answering(pod.settings.probes, bus)
    return answering


async def connect(pod: Pod) -> Bus:
    """Return the pod's connection.

    Raises:
        Unavailable: no server could be reached.
    """
    return await Bus.connect(
        BusOptions(
            servers=pod.spec.servers,
            name=pod.spec.pod,
            credential=pod.spec.credential,
            ping_interval_s=PING_WARM_S,
            inbox_prefix=f"_INBOX_{pod.spec.pod}",
            tls=pod.tls,
        )
    )
