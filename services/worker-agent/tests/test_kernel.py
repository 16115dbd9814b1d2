"""What the sidecar adds up where the kernel does not bound it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from shared.pools import PodLimits
from worker_agent.adapters import kernel
from worker_agent.pod import SandboxFacts


def test_the_disk_sum_counts_all_folders_and_all_depths(tmp_path: Path) -> None:
    """Workspace and scratch together."""
    (tmp_path / "a" / "deep").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "deep" / "file").write_bytes(b"x" * kernel.MIB)
    (tmp_path / "b" / "file").write_bytes(b"x" * kernel.MIB)

    used = kernel.disk_mib([str(tmp_path / "a"), str(tmp_path / "b")], 100)

    assert 2 <= used < 2.2


def test_what_has_changed_since_a_moment_is_counted_on_the_way(tmp_path: Path) -> None:
    """By the time of change, which user code can't set; in the workspace alone, and nothing of links or directories."""
    work, scratch = tmp_path / "work", tmp_path / "scratch"
    (work / "deep").mkdir(parents=True)
    scratch.mkdir()
    (work / "old").write_bytes(b"x" * 1000)
    since_ns = (work / "old").stat().st_ctime_ns + 1
    while time.time_ns() < since_ns + 20_000_000:  # file systems' clocks tick
        time.sleep(0.005)
    (work / "deep" / "new").write_bytes(b"x" * 700)
    os.utime(work / "deep" / "new", ns=(0, 0))
    (work / "link").symlink_to("old")
    (scratch / "other").write_bytes(b"x" * 5000)
    changes = kernel.Changes(since_ns)

    assert changes.bytes is None
    kernel.disk_mib([str(work), str(scratch)], 100, changes)
    assert changes.bytes == 700


def test_files_that_come_and_go_hide_nothing(tmp_path: Path) -> None:
    """A sandbox that churns small files beside a large one is still seen to fill the disk."""
    (tmp_path / "large").write_bytes(b"x" * 4 * kernel.MIB)
    done = threading.Event()

    def churn() -> None:
        while not done.is_set():
            for number in range(50):
                (tmp_path / f"small-{number}").touch()
            for number in range(50):
                (tmp_path / f"small-{number}").unlink()

    churning = threading.Thread(target=churn)
    churning.start()
    try:
        sums = [kernel.disk_mib([str(tmp_path)], 100) for _ in range(200)]
    finally:
        done.set()
        churning.join(10)

    assert min(sums) >= 4


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
from worker_agent.pod import SandboxFacts
facts = SandboxFacts(isolation="process", workspace={str(tmp_path)!r}, watch=("disk", "pids"), pid=os.getpid())
if os.geteuid() == 0:
    os.setuid({200_000 + os.getpid() % 100_000})
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
print(asyncio.new_event_loop().run_until_complete(kernel.look(facts, PodLimits(pids=0))))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30
    )

    assert done.stdout == "pids: 1 processes, at most 0\n", done.stderr
