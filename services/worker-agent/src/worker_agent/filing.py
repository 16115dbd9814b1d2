"""Joins what keeps a session's files to where they are kept: a part of `app`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shared.bus import Bus
from worker_agent.adapters.checkpoints import NodeCheckpointer
from worker_agent.adapters.volumes import BusVolumes
from worker_agent.core.lease import LeaseTimes
from worker_agent.loops.commit import Committer
from worker_agent.loops.files import Files
from worker_agent.loops.keep_files import FileKeeper
from worker_agent.loops.keep_lease import LeaseKeeper
from worker_agent.loops.keep_volume import VolumeFiles
from worker_agent.pod import Pod
from worker_agent.ports import Sandbox


def make_files(
    place: tuple[Pod, Bus, Sandbox],
    committer: Committer,
    at: Callable[[str, Any], Any],
    on_change: Callable[[], None],
) -> tuple[Files, LeaseKeeper | None]:
    """Return what keeps the files of the pod's session, and where they are on a volume also what lets its code run.

    Args:
        place: the pod, its connection, its sandbox.
        committer: writes the session's record.
        at: places faults into an adapter that a loop uses.
        on_change: called when what the heartbeat should say has changed.
    """
    pod, bus, sandbox = place
    settings = pod.settings
    if settings.workspace == "pvc":
        on_volume = VolumeFiles(
            at("keep_volume", BusVolumes(bus, pod.spec)),
            at("keep_volume", sandbox),
            committer,
            LeaseTimes(settings.fence_s),
            on_change,
        )
        return on_volume, on_volume.lease
    checkpointer = (
        NodeCheckpointer(bus, pod.spec, pod.folder, settings.exclude)
        if pod.sandbox.checkpointer
        else None
    )
    in_snapshots = FileKeeper(
        None if checkpointer is None else at("keep_files", at("restore", checkpointer)),
        at("keep_files", sandbox),
        committer,
        settings,
        on_change,
    )
    return in_snapshots, None
