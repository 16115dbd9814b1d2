"""One save or restore by the checkpointer's own pipelines, in a process of its own; prints what it cost as JSON.

    python child.py save WORKSPACE STORE CACHE [PARENT]
    python child.py restore FOLDER STORE CACHE REF

The checkpointer is a service that runs already when it is asked, so its start is not counted.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time
from pathlib import Path

import msgspec

from checkpointer.adapters.engine.collector import calm_collector
from checkpointer.adapters.engine.restore import Follower, RestoreJob, restore
from checkpointer.adapters.engine.save import SaveJob, Watcher, save
from checkpointer.adapters.engine.threads import Bridge
from checkpointer.adapters.stores.local import LocalStore
from checkpointer.loops.patient_store import PatientStore
from shared.workspace import SnapshotRef

SESSION = "01J8ZQ5XKQJ9V3N7C2B4D6F8G0"


class Cost(msgspec.Struct):
    """What one operation cost."""

    cpu_s: float
    wall_s: float
    memory_mib: float
    """Peak of the whole process."""
    first_s: float = 0.0
    """Until what a restore brings first is there."""
    stored_bytes: int = 0
    ref: SnapshotRef | None = None


async def main(verb: str, place: str, store: str, cache: str, ref: str = "") -> Cost:
    """Do it."""
    calm_collector()
    packs = PatientStore(await LocalStore.open(Path(store), "bench"))
    bridge = Bridge(packs, asyncio.get_running_loop())
    known = msgspec.json.decode(ref, type=SnapshotRef) if ref else None
    root = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    cost = Cost(0, 0, 0)
    began, cpu = time.monotonic(), time.process_time()

    def note_first() -> None:
        cost.first_s = time.monotonic() - began

    if verb == "save":
        job = SaveJob(root=root, tenant="bench", session=SESSION, parent=known, cache=Path(cache))
        saved = await asyncio.to_thread(save, job, bridge, Watcher())
        cost.ref, cost.stored_bytes = saved.ref, saved.stored_bytes
    elif known is not None:
        back = RestoreJob(root=root, ref=known, cache=Path(cache))
        await asyncio.to_thread(restore, back, bridge, Follower(gate_open=note_first))
    cost.cpu_s, cost.wall_s = time.process_time() - cpu, time.monotonic() - began
    cost.memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    await packs.close()
    return cost


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(main(*sys.argv[1:]))) + b"\n")
