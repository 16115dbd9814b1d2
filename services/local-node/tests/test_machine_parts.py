"""The node's adapters, each on its own, against the real machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from drill import exists, is_there, until

from local_node.adapters.cgroups import Groups
from local_node.adapters.pod_files import PodFiles
from local_node.adapters.sandboxes import shut_folder
from local_node.adapters.uids import BASE, COUNT, UidRange
from local_node.adapters.zygote import protocol, tree
from local_node.adapters.zygote.client import Zygote, ZygoteConfig
from shared.errors import Conflict, Unavailable
from shared.pools import PodLimits

LIMITS = PodLimits(memory_mib=64, pids=20, cpu=0.5)


def test_a_datagram_arrives_whole_with_its_descriptors() -> None:
    """Operation, key, body and usable copies of the descriptors, closed on exec."""
    ours, theirs = protocol.connect_pair()
    read_end, write_end = os.pipe()
    with ours, theirs:
        body = protocol.pack({"pod": "p", "list": [1, "two", None], "deep": {"x": 1.5}})
        protocol.send(ours, protocol.START, 2**40, body, (write_end,))
        os.close(write_end)
        received = protocol.receive(theirs)
        assert received is not None
        operation, key, got, (fd,) = received
        os.write(fd, b"through")
        assert os.read(read_end, 100) == b"through"
        assert not os.get_inheritable(fd)
        os.close(fd)
        os.close(read_end)
        assert (operation, key) == (protocol.START, 2**40)
        assert protocol.unpack(got) == {"pod": "p", "list": [1, "two", None], "deep": {"x": 1.5}}
        ours.close()
        assert protocol.receive(theirs) is None


def test_a_body_that_is_too_long_is_refused() -> None:
    """At the sender, before anything is sent."""
    ours, theirs = protocol.connect_pair()
    with ours, theirs:
        with pytest.raises(ValueError, match="allowed"):
            protocol.send(ours, protocol.START, 1, bytes(protocol.DATAGRAM_BYTES_MAX))
        protocol.send(ours, protocol.START, 1, bytes(protocol.DATAGRAM_BYTES_MAX - 64))
        received = protocol.receive(theirs)
        assert received is not None
        assert len(received[2]) == protocol.DATAGRAM_BYTES_MAX - 64


CONFINED = """
import socket, sys
from confinement import harden, linux
from local_node.adapters.zygote import protocol
from confinement import seccomp

control = socket.socket(fileno=int(sys.argv[1]))
harden.lock_down()
linux.SeccompProgram(seccomp.build_filter(linux.MACHINE, own_namespaces=False, memory_bounded=True)).install()
protocol.send(control, protocol.REPORT, 7, b"why")
"""


def test_a_confined_child_can_still_say_why_it_ends() -> None:
    """Its filter forbids sendmsg; without the word a person reads of an exit code alone."""
    ours, theirs = protocol.connect_pair()
    with ours, theirs:
        program = [sys.executable, "-c", CONFINED, str(theirs.fileno())]
        subprocess.run(program, pass_fds=[theirs.fileno()], check=True, timeout=20)

        assert protocol.receive(ours) == (protocol.REPORT, 7, b"why", ())


def test_a_folder_that_sandboxes_can_not_pass_is_named() -> None:
    """Root's home is one, and with it root's usual state folder."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        pods = top / "state" / "pods"
        pods.mkdir(parents=True)

        assert shut_folder(pods) == top  # made for its owner alone
        top.chmod(0o711)
        assert shut_folder(pods) is None


async def test_a_module_that_is_missing_stops_the_zygote(tmp_path: Path) -> None:
    """The node is told which, instead of a pod that never starts."""
    settings = {"role": "worker", "path": sys.path, "module": "no_such_module"}
    zygote = Zygote(ZygoteConfig("worker", sys.executable, settings), lambda _name: None)

    with pytest.raises(Unavailable, match="No module named 'no_such_module'"):
        await zygote.launch()


async def test_a_module_without_the_entry_point_stops_the_zygote() -> None:
    """It says what is expected."""
    settings = {"role": "worker", "path": sys.path, "module": "json"}
    zygote = Zygote(ZygoteConfig("worker", sys.executable, settings), lambda _name: None)

    with pytest.raises(Unavailable, match=r"json\.__main__|run_forked"):
        await zygote.launch()


def test_pod_directories_are_made_and_given_up(tmp_path: Path) -> None:
    """One name, one directory; a discarded one frees its name at once; what is left over becomes trash."""
    files = PodFiles(tmp_path / "node")
    path = files.create("pod-1", None, with_tmp=True)
    assert sorted(entry.name for entry in path.iterdir()) == ["tmp", "workspace"]
    assert (path / "workspace").stat().st_mode & 0o777 == 0o700
    with pytest.raises(Conflict):
        files.create("pod-1", None, with_tmp=True)

    files.discard("pod-1")
    files.discard("never-was")
    files.create("pod-1", None, with_tmp=False)
    again = PodFiles(tmp_path / "node")

    assert list(again.pods_dir.iterdir()) == []
    assert len(list((tmp_path / "node" / "trash").iterdir())) == 2


@pytest.fixture
def groups(tmp_path: Path) -> Groups:
    """The groups of a node that has some."""
    made = Groups("parts", tmp_path)
    if not made.controllers:
        pytest.skip(str(made.missing))
    return made


def test_groups_hold_a_pods_limits_and_go(groups: Groups) -> None:
    """Limits are written, a process that joins is in, kill empties them, remove removes them."""
    group = groups.create("pod-1", LIMITS)
    assert group is not None
    process = subprocess.Popen(["sleep", "60"])
    for fd in group.open_entries():
        os.write(fd, str(process.pid).encode())
        os.close(fd)
    if group.memory is not None:
        limit = next(
            group.memory / name
            for name in ("memory.max", "memory.limit_in_bytes")
            if (group.memory / name).exists()
        )
        assert int(limit.read_text()) == 64 << 20
        assert str(process.pid) in (group.memory / "cgroup.procs").read_text().split()
    assert not groups.remove("pod-1")

    groups.kill("pod-1")

    assert process.wait(10) == -signal.SIGKILL
    assert groups.remove("pod-1")
    assert not any(exists(path) for path in group.paths)
    groups.close()
    assert not any(exists(path.parent) for path in group.paths)


def test_groups_of_a_killed_node_are_cleared(groups: Groups, tmp_path: Path) -> None:
    """Whatever runs in them is killed first."""
    group = groups.create("pod-1", LIMITS)
    assert group is not None
    process = subprocess.Popen(["sleep", "60"])
    for fd in group.open_entries():
        os.write(fd, str(process.pid).encode())
        os.close(fd)

    again = Groups("parts", tmp_path)

    assert process.wait(10) == -signal.SIGKILL
    assert again.controllers == groups.controllers
    assert not any(exists(path) for path in group.paths)
    again.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands out uids")
def test_two_nodes_never_share_uids() -> None:
    """Each has a range of its own for as long as it lives; uids go round."""
    first, second = UidRange(), UidRange()
    try:
        assert abs(first.first - second.first) >= COUNT
        assert min(first.first, second.first) >= BASE
        a = first.take(())
        assert first.take({a + 1}) == a + 2
    finally:
        first.close()
        second.close()


async def test_a_tree_is_killed_however_deep() -> None:
    """Children of children, those that left their session, and those that ignore signals."""
    script = "trap '' TERM; sleep 60 & setsid sh -c 'sleep 60 & sleep 60 & wait' & sh -c '(sleep 60; :); :' & wait"
    process = subprocess.Popen(["sh", "-c", script])  # noqa: ASYNC220 - its parent is to be this process
    assert await until(lambda: len(tree.descendants(process.pid)) >= 6)
    below = tree.descendants(process.pid)

    tree.kill_tree(process.pid)

    assert process.wait(10) == -signal.SIGKILL
    assert await until(lambda: not any(is_there(pid) for pid in below))
