"""Processor time and memory are counted right, on made-up and on real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from harness import procs, usage
from harness.groups import Roots, find_members, ticks_by_group
from harness.procs import Process, parse_machine, parse_rollup, parse_stat

STAT = "42 (a (b) c) S 7 42 42 0 -1 4194560 1 2 0 0 30 12 5 6 20 0 1 0 900 1000 10 18446744073709551615"
SPIN = "import time\nwhile time.process_time() < {s}: pass\n"


def test_a_name_with_brackets_does_not_shift_the_fields() -> None:
    """User code may call its process whatever it likes."""
    assert parse_stat(STAT) == Process(
        pid=42, parent=7, name="a (b) c", own_ticks=42, waited_ticks=11
    )


def test_the_machine_is_busy_with_all_but_idle_and_waiting_for_disks() -> None:
    """Stolen time is counted apart; a kernel without pressure counters yields none."""
    stat = "cpu  10 1 5 1000 50 2 3 7 0 0\ncpu0 1 1 1 1\n"
    pressure = "some avg10=0.28 avg60=0.15 avg300=0.76 total=19263448\nfull avg10=0.00 total=0\n"

    assert parse_machine(stat, pressure) == (21, 7, 19263448)
    assert parse_machine(stat, None).waiting_us is None


def test_a_rollup_is_read_by_its_names() -> None:
    """The first line is an address range."""
    text = (
        "5f-7f ---p 00000000 00:00 0 [rollup]\nRss:  6000 kB\nPss:  2048 kB\nPss_Dirty:  100 kB\n"
    )

    assert parse_rollup(text) == {"Rss": 6000, "Pss": 2048, "Pss_Dirty": 100}


def _process(pid: int, parent: int, own: int, waited: int = 0) -> Process:
    return Process(pid, parent, f"p{pid}", own, waited)


def _cluster(*, second_pod: bool) -> dict[int, Process]:
    """A supervisor (1) with server, manager and node; the node's checkpointer (22) and two zygotes with one or two pods."""
    pods = [_process(30, 20, 4), _process(40, 21, 2), _process(41, 40, 8)]
    if second_pod:
        pods += [_process(31, 20, 3), _process(42, 21, 5)]
    early = 0 if second_pod else 3  # the second pod has died: its parents' accounts have it
    return {
        process.pid: process
        for process in [
            _process(1, 0, 100, 1),
            *(_process(10, 1, 50), _process(11, 1, 20), _process(12, 1, 30), _process(13, 1, 5)),
            *(_process(20, 12, 6, early), _process(21, 12, 7, 5 if early else 0)),
            _process(22, 12, 60),
            *pods,
            _process(99, 5, 9, 1000),
        ]
    }


ROOTS = Roots(servers=[10], edges=[13], managers=[11], nodes=[12], supervisor=1, client=99)


def _command(pid: int) -> Sequence[str]:
    if pid == 22:
        return ["python", "-m", "checkpointer"]
    return ["python", "-I", "-S", "-c", "…"] if pid == 21 else ["python", "-I", "-c", "…"]


@pytest.mark.parametrize("second_pod", [True, False])
def test_what_a_dead_pod_has_used_stays_counted(second_pod: bool) -> None:
    """Before and after the second pod's death the groups have the same sums."""
    processes = _cluster(second_pod=second_pod)
    members = find_members(ROOTS, processes, _command)

    assert ticks_by_group(ROOTS, processes, members) == {
        "nats": 50, "edges": 5, "managers": 20, "nodes": 30, "worker_zygotes": 6, "sandbox_zygotes": 7, "workers": 7,
        "checkpointers": 60, "sandboxes": 15, "supervisor": 100, "client": 9,
    }  # fmt: skip
    assert sorted(members.runners) == ([40, 42] if second_pod else [40])
    assert (members.checkpointers, sorted(members.zygotes)) == ([22], [20, 21])


def test_a_real_child_is_counted_alive_and_dead() -> None:
    """A child burns 0.2 s; as a manager's child it shows in that group, whether it lives or was waited for."""
    roots = Roots(servers=[], edges=[], managers=[os.getpid()], nodes=[], supervisor=0, client=0)
    first = usage.look(roots)
    alone = procs.cpu_s([os.getpid()])
    subprocess.run([sys.executable, "-c", SPIN.format(s=0.2)], check=True, timeout=30)

    last = usage.look(roots)

    found = usage.between(first, last)
    used_s = found.cores["managers"] * found.seconds
    assert (
        0.2 - 4 / procs.TICKS_PER_S <= used_s <= 2 * found.seconds
    )  # four accounts, each cut to whole ticks
    assert 0 <= procs.cpu_s([os.getpid()]) - alone < used_s
    assert found.elsewhere >= 0


def test_living_processes_are_counted_finer_than_ticks() -> None:
    """A few milliseconds of work show, in nanoseconds where the kernel has them."""
    before = procs.cpu_s([os.getpid()])
    until = time.process_time() + 0.03
    while time.process_time() < until:
        pass

    assert 0.02 < procs.cpu_s([os.getpid()]) - before < 2


def test_a_short_life_is_counted_finer_than_ticks_where_the_kernel_tells(tmp_path: Path) -> None:
    """Three milliseconds are no whole tick; a kernel without the finer count still has the ticks."""
    (tmp_path / "42").mkdir()
    (tmp_path / "42" / "stat").write_text(STAT)
    coarse = procs.read_process(42, tmp_path)
    (tmp_path / "42" / "schedstat").write_text("423000000 77 5\n")
    fine = procs.read_process(42, tmp_path)

    assert coarse is not None
    assert fine is not None
    assert coarse.own_ticks == 42
    assert fine.own_ticks == pytest.approx(0.423 * procs.TICKS_PER_S)
    assert list(procs.scan(tmp_path)) == [42]


def test_memory_is_the_share_of_each_process() -> None:
    """This process has some; one that is gone has none."""
    gone = subprocess.Popen(["true"])
    gone.wait(10)
    size = procs.pss_mib(os.getpid())

    assert size is not None
    assert 1 < size < 4096
    assert procs.pss_mib(gone.pid) is None
    assert procs.read_process(gone.pid) is None
    assert procs.read_command(gone.pid) == []


def test_moments_in_the_wrong_order_are_refused() -> None:
    """A negative distance would turn figures around silently."""
    roots = Roots([], [], [], [], 0, 0)
    first = usage.look(roots)

    with pytest.raises(ValueError, match="order"):
        usage.between(first, first)
