"""How much of the disk a sandbox uses: added up right, and not too often."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from worker_agent.adapters.disk import MIB, Changes, Disk, disk_mib
from worker_agent.core.looks import REST_S_MAX, SHARE, Sum, after, is_due


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


def sums_in(seconds: float, room_bytes: Callable[[float], int]) -> list[float]:
    """Return when a large tree is added up, beside a neighbour that fills the disk and empties it every minute."""
    now, ended, found, last = 0.0, 0.0, list[float](), Sum(0.1, room_bytes(0.0), 10_000)
    while now < seconds:
        now = round(now + 0.2, 3)
        free_bytes = 10_000 - int(10_000 * (now % 60) / 60)
        if is_due(last, now - ended, free_bytes, is_asked=False):
            found.append(now)
            now = round(now + last.took_s, 3)
            last, ended = after(last, Sum(0.1, room_bytes(now), free_bytes)), now
    return found


def test_a_neighbour_that_writes_and_deletes_in_a_circle_costs_little() -> None:
    """It calls for sums that find nothing: each comes later than the one before."""
    found = sums_in(600, lambda _: 60)

    assert len(found) * 0.1 / 600 < 3 * SHARE


def test_a_fast_writer_meets_its_limit_in_time_whatever_its_neighbour_does() -> None:
    """Early sums that found nothing delay it by no more than the pause where nothing hurries."""
    for begins in range(20, 60):
        found = sums_in(begins + 20, lambda now, since=begins: 60 - (now > since) * 100)

        assert min(at for at in found if at > begins) - begins <= 0.1 / SHARE + 0.4


def test_early_sums_that_find_nothing_come_ever_later_until_one_finds_something() -> None:
    """By free space, that is: whoever asks what has changed is answered as soon as ever."""
    first = Sum(took_s=0.2, room_bytes=1000, free_bytes=5000)
    vain = after(first, Sum(0.2, 900, 4500))

    assert vain.vain == 1
    assert not is_due(vain, 0.79, 4000, is_asked=False)
    assert is_due(vain, 0.8, 4000, is_asked=False)
    assert is_due(vain, 0.4, 4500, is_asked=True)
    assert after(vain, Sum(0.2, 600, 4000)).vain == 0  # it wrote itself
    assert after(vain, Sum(0.2, 900, 4500)).vain == 0  # nothing called
