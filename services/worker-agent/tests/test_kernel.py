"""What the sidecar adds up where the kernel does not bound it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from shared.pools import PodLimits
from worker_agent.adapters import kernel
from worker_agent.adapters.disk import Disk
from worker_agent.pod import SandboxFacts


def test_a_passed_limit_is_named_with_its_bound(tmp_path: Path) -> None:
    """Processes below the runner, memory of them all, files."""
    code = "import os, sys, time; x = b'x' * (40 << 20); os.fork(); os.fork(); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as root:
        try:
            assert root.stdout is not None
            for _ in range(4):
                root.stdout.readline()
            said = {
                name: kernel.passed_limit(
                    SandboxFacts(
                        isolation="process", workspace=str(tmp_path), watch=(name,), pid=root.pid
                    ),
                    PodLimits(memory_mib=32, pids=limit_pids, disk_mib=1),
                    Disk([str(tmp_path)], 1),
                )
                for name, limit_pids in (("pids", 8), ("memory", 128), ("disk", 128))
            }
            assert said["pids"] is None
            assert said["disk"] is None
            assert said["memory"] is not None
            assert said["memory"].startswith("memory_mib: ")
            assert said["memory"].endswith(", at most 32")
            assert len(list(kernel.process_tree(root.pid))) == 4
        finally:
            for pid in list(kernel.process_tree(root.pid)):
                os.kill(pid, 9)


def test_a_limit_is_seen_where_there_is_no_room_for_a_thread(tmp_path: Path) -> None:
    """Whoever forks without end takes the room for the thread that would look: where it is one user's."""
    code = f"""
import asyncio, concurrent.futures.thread, os, resource
from shared.pools import PodLimits
from worker_agent.adapters import kernel
from worker_agent.adapters.disk import Disk
from worker_agent.pod import SandboxFacts
facts = SandboxFacts(isolation="process", workspace={str(tmp_path)!r}, watch=("disk", "pids"), pid=os.getpid())
if os.geteuid() == 0:
    os.setuid({200_000 + os.getpid() % 100_000})
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
print(asyncio.new_event_loop().run_until_complete(kernel.look(facts, PodLimits(pids=0), Disk([], 1))))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30
    )

    assert done.stdout == "pids: 1 processes, at most 0\n", done.stderr
