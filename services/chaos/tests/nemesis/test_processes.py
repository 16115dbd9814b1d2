"""Trees of processes are hit as a whole, and what was stopped goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from agent_sandbox.embedded.procs import ProcessId, identify
from chaos.nemesis import processes
from chaos.nemesis.processes import stands_still

FAMILY = """\
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; print('born', flush=True); time.sleep(600)"], start_new_session=True)
time.sleep(600)
"""
"""A process with a child in a session of its own, as a zygote is."""


@pytest.fixture
def root() -> Iterator[ProcessId]:
    """The root of a living tree of two."""
    popen = subprocess.Popen([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE)
    assert popen.stdout is not None
    assert popen.stdout.readline() == b"born\n"
    found = identify(popen.pid)
    assert found is not None
    everything = processes.trees([found])
    yield found
    processes.send(everything, signal.SIGKILL)
    popen.communicate(timeout=10)


def test_a_killed_tree_leaves_nothing(root: ProcessId) -> None:
    """Children in sessions of their own neither."""
    everything = processes.trees([root])
    assert len(everything) == 2

    assert processes.kill([root]) == []
    assert not any(one.is_alive() for one in everything)


def test_a_stopped_tree_stands_still_until_it_is_told_to_go_on(root: ProcessId) -> None:
    """All of it."""
    stopped = processes.stop([root])

    assert {one.pid for one in stopped} == {one.pid for one in processes.trees([root])}
    assert len(stopped) == 2
    processes.send(stopped, signal.SIGCONT)
    assert not any(stands_still(one) for one in stopped)
