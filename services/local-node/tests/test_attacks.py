"""What untrusted code tries, in each class: its neighbour, the sidecars, the node and the host stay as they were."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from drill import Drill
from scene import SECRET, Scene

from shared.testing import attacks
from shared.testing.secret_servers import Servers, secret_servers

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.usefixtures("bystanders")]

HOST_VARIABLE = "DRILL_HOST_SECRET"


@pytest.fixture
def host_servers(drill: Drill) -> Iterator[Servers]:
    """Servers of the host that tell a secret: TCP port on loopback, path of a Unix socket, abstract name."""
    with secret_servers(drill.folder, SECRET.encode()) as servers:
        yield servers


async def test_files_of_the_host_and_of_neighbours_stay_unread(scene: Scene) -> None:
    """Even what everybody may read by its mode: the node's state, a neighbour's workspace, secrets of the system."""
    neighbour = scene.neighbour.folder
    node = scene.drill.folder
    got = await scene.run(
        attacks.read_files(
            str(scene.secret), str(node), str(node / "pods"), str(neighbour), f"{neighbour}/workspace",
            f"{neighbour}/workspace/mine", f"{neighbour}/facts.json", f"{neighbour}/tmp", "/etc/shadow", "/root/.ssh",
            "/root/.bash_history", "/var/log/dpkg.log", "/var/lib", "/sys/kernel", "/sys/fs/cgroup", "/boot",
            f"{scene.attacker.folder}/facts.json", str(scene.attacker.folder), "/.pods", "/.proc/1/environ",
        )
    )  # fmt: skip

    leaked = [
        line for line in got["got"] if not line.endswith(": []")
    ]  # an empty folder tells nothing
    assert leaked == []
    assert len(got["held"]) > 10


async def test_nothing_outside_of_the_workspace_can_be_written(scene: Scene) -> None:
    """The root is read-only, or shut by Landlock."""
    neighbour = scene.neighbour.folder
    got = await scene.run(
        attacks.write_outside(
            "/", "/usr", "/usr/bin", "/usr/local/bin", "/etc", "/var", "/dev", "/home", "/root", "/opt", "/srv",
            str(scene.drill.folder), f"{neighbour}/workspace", str(scene.attacker.folder), "/.pods", "/sys/fs/cgroup",
        )
    )  # fmt: skip

    assert got["got"] == []


async def test_other_processes_stay_unread(scene: Scene) -> None:
    """Environment, memory, descriptors, roots of the node, the sidecars and the neighbour."""
    pids = (
        scene.pids if scene.isolation == "landlock" else scene.pids[:-1]
    )  # its own pid 1 is the runner
    got = await scene.run(attacks.look_at_processes(*pids))

    assert got["got"] == []


async def test_other_processes_stay_alive(scene: Scene) -> None:
    """kill -9 by number, and kill -9 -1."""
    got = await scene.run(attacks.signal_processes(*scene.pids[:-1]))

    assert got["got"] == []
    assert await scene.attacker.answers()


async def test_other_processes_stay_untraced(scene: Scene) -> None:
    """No ptrace, no writing through /proc."""
    got = await scene.run(attacks.trace_processes(*scene.pids))

    assert got["got"] == []


async def test_other_processes_stay_unchanged(scene: Scene) -> None:
    """Limits, priority, processors: of the node, the sidecars and the neighbour."""
    others = (os.getpid(), scene.attacker.sidecar_pid)
    before = [os.getpriority(os.PRIO_PROCESS, pid) for pid in others]

    got = await scene.run(attacks.change_processes(*scene.pids[:-1]))

    own = (
        ["priority of user"] if scene.isolation == "namespace" else []
    )  # its user is itself alone there
    assert [line.partition(":")[0] for line in got["got"]] == own
    assert [os.getpriority(os.PRIO_PROCESS, pid) for pid in others] == before


async def test_shared_objects_stay_in_the_pod(scene: Scene) -> None:
    """What one pod makes, its neighbour does not find; without a namespace of its own it makes none."""
    got = await scene.run(attacks.SHARE_MEMORY)

    assert bool(got["got"]) == (
        scene.isolation == "namespace" and "memory" in scene.attacker.sandbox["enforced"]
    )
    said = await scene.neighbour.shell("cat /proc/sysvipc/shm 2>/dev/null | wc -l")
    assert int(said["stdout"]) <= 1  # the heading
    assert "23130" not in Path("/proc/sysvipc/shm").read_text()  # noqa: ASYNC240 - no disk behind it


async def test_the_hosts_servers_stay_out_of_reach(
    scene: Scene, host_servers: tuple[int, str, str]
) -> None:
    """TCP on the host's loopback, Unix sockets by path and abstract, the metadata address, raw sockets."""
    got = await scene.run(attacks.reach_network(*host_servers))

    assert got["got"] == []
    assert len(got["held"]) == 9


async def test_loopback_is_the_sandboxs_own(scene: Scene) -> None:
    """In a namespace a task may serve itself; under Landlock it has no sockets, but pairs, as asyncio needs them."""
    code = (
        "import socket, asyncio; asyncio.run(asyncio.sleep(0))\n"
        "server = socket.create_server(('127.0.0.1', 8080))\n"
        "client = socket.create_connection(('127.0.0.1', 8080)); print('connected')"
    )
    said = await scene.attacker.python(code)

    assert said["exit_code"] == (0 if scene.isolation == "namespace" else 1), said
    assert ("connected" in said["stdout"]) == (scene.isolation == "namespace")
    if scene.isolation == "landlock":
        assert "Address family not supported" in said["stderr"], said


async def test_dangerous_system_calls_are_refused(scene: Scene) -> None:
    """Mounts, namespaces, modules, tracing, io_uring, keys, devices."""
    got = await scene.run(attacks.SYSTEM_CALLS)

    assert got["got"] == []
    assert len(got["held"]) == 27
    allowed = ("EPERM", "ENOSYS", "EACCES")
    assert [line for line in got["held"] if not line.endswith(allowed)] == []


async def test_no_privilege_can_be_regained(scene: Scene) -> None:
    """Neither by calls nor by running a program as root."""
    got = await scene.run(attacks.PRIVILEGES)

    assert got["got"] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="making a setuid-root program needs root")
async def test_a_setuid_program_gives_nothing(scene: Scene) -> None:
    """A setuid-root copy of `id` in the workspace itself runs under the sandbox's own uid."""
    program = scene.attacker.folder / "workspace" / "as-root"
    shutil.copyfile(shutil.which("id") or "/usr/bin/id", program)
    program.chmod(0o4755)
    assert program.stat().st_mode & stat.S_ISUID

    said = await scene.attacker.shell("./as-root -u")

    assert said["stdout"].strip() == str(scene.attacker.sandbox["uid"])


async def test_the_environment_holds_no_secret(scene: Scene) -> None:
    """Neither the node's variables, nor the sidecar's credential."""
    os.environ[HOST_VARIABLE] = SECRET
    pod = await scene.drill.start(f"clean-{scene.isolation}", scene.isolation)
    del os.environ[HOST_VARIABLE]

    said = await pod.python("import os, json; print(json.dumps(dict(os.environ)))")

    names = set(json.loads(said["stdout"]))
    known = {
        "HOME", "LANG", "LC_CTYPE", "LOGNAME", "OLDPWD", "PATH", "PWD", "SHELL", "SHLVL", "TERM", "TMPDIR", "USER",
        "WORKSPACE", "_",
    }  # fmt: skip
    assert {name for name in names - known if not name.startswith("PYTHON")} == set()
    await scene.drill.end(pod)


async def test_no_descriptor_is_left_open(scene: Scene) -> None:
    """A program starts with 0, 1 and 2."""
    code = (
        "import fcntl\nfound = []\n"
        "for fd in range(1024):\n"
        "    try: fcntl.fcntl(fd, fcntl.F_GETFD); found.append(fd)\n"
        "    except OSError: pass\n"
        "print(found)"
    )
    said = await scene.attacker.python(code)

    assert said["stdout"].strip() == "[0, 1, 2]"
