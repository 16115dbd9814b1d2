"""How much of the disk a sandbox uses: added up right, and not too often."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from worker_agent.adapters.disk import MIB, Changes, Disk, disk_mib
from worker_agent.core.looks import REST_S_MAX, Sum, is_due


def test_the_disk_sum_counts_all_folders_and_all_depths(tmp_path: Path) -> None:
    """Workspace and scratch together."""
    (tmp_path / "a" / "deep").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "deep" / "file").write_bytes(b"x" * MIB)
    (tmp_path / "b" / "file").write_bytes(b"x" * MIB)

    used = disk_mib([str(tmp_path / "a"), str(tmp_path / "b")], 100)

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
    changes = Changes(since_ns)

    assert changes.bytes is None
    disk_mib([str(work), str(scratch)], 100, changes)
    assert changes.bytes == 700


def test_files_that_come_and_go_hide_nothing(tmp_path: Path) -> None:
    """A sandbox that churns small files beside a large one is still seen to fill the disk."""
    (tmp_path / "large").write_bytes(b"x" * 4 * MIB)
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
        sums = [disk_mib([str(tmp_path)], 100) for _ in range(200)]
    finally:
        done.set()
        churning.join(10)

    assert min(sums) >= 4


def test_a_sandbox_is_seen_to_pass_its_limit_and_what_it_changed_is_told(tmp_path: Path) -> None:
    """At the first look, and at each one that is due."""
    disk = Disk([str(tmp_path)], 2)
    disk.count_changes(0)
    (tmp_path / "small").write_bytes(b"x" * 100)

    assert disk.changed_bytes is None
    assert not disk.passed_limit()
    assert disk.changed_bytes == 100
    (tmp_path / "large").write_bytes(b"x" * 3 * MIB)
    end = time.monotonic() + 30
    while not disk.passed_limit():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_many_files_are_added_up_so_seldom_that_it_costs_a_fiftieth_of_a_processor() -> None:
    """Unless that were less than every ten seconds."""
    quiet = Sum(took_s=0.08, room_bytes=1000, free_bytes=5000)

    assert not is_due(quiet, 3.9, 5000, is_asked=False)
    assert is_due(quiet, 4.0, 5000, is_asked=False)
    assert is_due(quiet._replace(took_s=1.0), REST_S_MAX, 5000, is_asked=False)
    assert is_due(quiet._replace(took_s=0.002), 0.2, 5000, is_asked=False)


def test_whoever_writes_much_is_looked_at_soon() -> None:
    """Known by what is free: half of the room may be gone. So is who wants to know what has changed."""
    last = Sum(took_s=0.2, room_bytes=1000, free_bytes=5000)

    assert not is_due(last, 0.39, 4500, is_asked=True)
    assert not is_due(last, 0.4, 4501, is_asked=False)
    assert is_due(last, 0.4, 4500, is_asked=False)
    assert is_due(last, 0.4, 5000, is_asked=True)
