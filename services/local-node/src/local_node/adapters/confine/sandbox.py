"""One pod's confinement, from the fork to the runner's first line. Standard library only: runs inside the zygotes.

What does not differ from pod to pod is done once, when a `Confinement` is made; `enter` is what each start pays for.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct

from confinement import harden, landlock, linux, seccomp
from local_node.adapters.confine import root

_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_LOOPBACK_UP = struct.pack("16sH14x", b"lo", _IFF_UP)
_INNER_NAMESPACES = linux.CLONE_NEWNS | linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS
_HOST_READ = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
    "/etc/alternatives", "/etc/localtime", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/mime.types",
    "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/terminfo", "/etc/os-release",
)  # fmt: skip
_HOST_DEVICES = (
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom",
    "/dev/tty",  # leads to the terminal that a process has already, and that is none of the host's
)  # fmt: skip


class Plan:
    """What one pod's confinement consists of; sent by the node with each start."""

    __slots__ = ("isolation", "memory_bounded", "niceness", "pod", "rlimits", "tmp_mib", "uid")

    def __init__(self, request: dict[str, object]) -> None:
        """Read a start request (see `adapters.zygote.protocol`)."""
        self.pod = str(request["pod"])
        self.isolation = str(request["isolation"])
        uid = request["uid"]
        self.uid = uid if isinstance(uid, int) else None
        limits = request["rlimits"]
        self.rlimits: dict[str, int] = limits if isinstance(limits, dict) else {}
        self.tmp_mib = int(str(request["tmp_mib"]))
        self.niceness = int(str(request["niceness"]))
        self.memory_bounded = bool(request["memory_bounded"])


class Confinement:
    """How this zygote confines its children."""

    def __init__(self, pods_dir: str, read_only: list[str], *, rooted: bool) -> None:
        """Prepare once what all children share.

        Args:
            pods_dir: the node's pod directories.
            read_only: paths that a sandbox may read besides the system's, such as Python's prefix.
            rooted: build the root of the `namespace` class and move into it; else stay on the host's files.

        Raises:
            OSError: not permitted.
        """
        self._pods_dir = pods_dir
        self._rooted = rooted
        self._landlock = landlock.abi() >= landlock.ABI_NEEDED
        self._filters = {
            bounded: linux.SeccompProgram(
                seccomp.build_filter(linux.MACHINE, own_namespaces=rooted, memory_bounded=bounded)
            )
            for bounded in (False, True)
        }
        ordinary = os.geteuid() != 0
        self.counts_by_namespace = ordinary and _try_user_namespace()
        """Each sandbox gets a user namespace: the kernel counts its processes apart, though all have one uid."""
        if not rooted:
            self._rules = [(path, landlock.READ) for path in (*_HOST_READ, *read_only)]
            self._rules += [(path, landlock.USE) for path in _HOST_DEVICES]
            return
        self._own_pid_namespace: int | None = None
        if ordinary:
            linux.enter_user_namespace()
        else:
            self._own_pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._root = root.Root(pods_dir, read_only, ordinary=ordinary)
        linux.drop_bounding_set()
        top = [("/", landlock.READ), ("/dev", landlock.USE), ("/proc", landlock.USE)]
        self._rules = [*top, ("/tmp", landlock.OWN), (root.WORKSPACE, landlock.OWN)]

    def fork(self) -> int:
        """Fork a child that is the first process of a process namespace of its own, if the class has them.

        The zygote stays in its own one and gets the child's number there, so no process stands between them.

        Returns:
            0 in the child, its pid in the zygote.

        Raises:
            OSError: not permitted, or no resources.
        """
        if not self._rooted:
            return os.fork()
        if self._own_pid_namespace is None:
            return linux.fork_into_pid_namespace()
        # Faster than clone(), and libc's own fork. Back to our own first: else they would nest.
        linux.setns(self._own_pid_namespace, linux.CLONE_NEWPID)
        linux.unshare(linux.CLONE_NEWPID)
        return os.fork()

    def enter(self, plan: Plan, cgroup_fds: list[int], zygote_fd: int) -> str:
        """Confine the calling process, a fresh child, for good.

        Args:
            plan: how.
            cgroup_fds: open files by which the pod's control groups are entered.
            zygote_fd: process descriptor of the zygote, with which the child dies.

        Returns:
            The workspace's path as the sandbox sees it.

        Raises:
            OSError: a step was refused; nothing untrusted may run then.
        """
        harden.join_cgroups(cgroup_fds)
        if plan.niceness:
            os.setpriority(
                os.PRIO_PROCESS, 0, max(plan.niceness, os.getpriority(os.PRIO_PROCESS, 0))
            )
        if self._rooted:
            linux.unshare(_INNER_NAMESPACES)
            self._root.mount_pod(plan.pod, plan.tmp_mib)
            socket.sethostname("sandbox")
            _loopback_up()
            workspace, rules = root.WORKSPACE, self._rules
        else:
            pod_dir = f"{self._pods_dir}/{plan.pod}"
            workspace, scratch = f"{pod_dir}/workspace", f"{pod_dir}/tmp"
            os.environ.update(HOME=workspace, WORKSPACE=workspace, TMPDIR=scratch)
            rules = [*self._rules, (workspace, landlock.OWN), (scratch, landlock.OWN)]
            linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)  # keeps the pod's processes one tree
        if self.counts_by_namespace:
            linux.enter_user_namespace()
        harden.set_rlimits(plan.rlimits)
        harden.be_first_for_oom()
        if plan.uid is not None:
            harden.become(plan.uid)
        harden.die_with(zygote_fd)  # after the change of user, which would undo it
        harden.lock_down()
        os.chdir(workspace)
        if plan.isolation != "process":
            if self._landlock:
                landlock.restrict(rules, tcp=self._rooted)
            elif not self._rooted:
                raise OSError(errno.ENOSYS, "this kernel has no Landlock of the needed version")
            self._filters[plan.memory_bounded].install()
        return workspace


def _try_user_namespace() -> bool:
    """Whether an ordinary user may make user namespaces here; tried in a child."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            linux.enter_user_namespace()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def _loopback_up() -> None:
    any_socket = socket.SocketType(
        socket.AF_INET, socket.SOCK_DGRAM
    )  # the C type: less memory to touch
    fcntl.ioctl(any_socket, _SIOCSIFFLAGS, _LOOPBACK_UP)
    any_socket.close()
