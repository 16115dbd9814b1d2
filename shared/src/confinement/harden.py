"""What every confined child gives up: descriptors, rights, limits, calls. Standard library only: runs in the zygotes."""

from __future__ import annotations

import os
import resource
import select
import signal

from confinement import linux

_RLIMITS = {
    "as": resource.RLIMIT_AS,
    "core": resource.RLIMIT_CORE,
    "data": resource.RLIMIT_DATA,
    "fsize": resource.RLIMIT_FSIZE,
    "memlock": resource.RLIMIT_MEMLOCK,
    "nofile": resource.RLIMIT_NOFILE,
    "nproc": resource.RLIMIT_NPROC,
}

_OOM_SCORE = b"500"

CHANNEL_FD = 3
"""Number under which the runner finds its end of the socketpair."""


def keep_only_channel(channel_fd: int) -> int:
    """Close every descriptor but /dev/null on 0, 1, 2 and the channel.

    Returns:
        The channel's new number.
    """
    os.dup2(0, 1)
    os.dup2(0, 2)
    if channel_fd != CHANNEL_FD:
        os.dup2(channel_fd, CHANNEL_FD, inheritable=False)  # not for what the runner executes
    os.closerange(CHANNEL_FD + 1, 65536)
    return CHANNEL_FD


def join_cgroups(procs_fds: list[int]) -> None:
    """Enter the pod's control groups.

    Args:
        procs_fds: open files by which control groups are entered.

    Raises:
        OSError: refused by the kernel.
    """
    for fd in procs_fds:
        os.write(fd, b"0")  # the writer itself


def be_first_for_oom() -> None:
    """When the whole machine is short of memory, let the kernel take sandboxes before services.

    Raises:
        OSError: refused by the kernel.
    """
    fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    os.write(fd, _OOM_SCORE)
    os.close(fd)


def set_rlimits(limits: dict[str, int]) -> None:
    """Set soft and hard limits.

    Args:
        limits: name (a key of `_RLIMITS`) -> value. A hard limit that is lower already stays.

    Raises:
        OSError: refused by the kernel.
    """
    for name, value in limits.items():
        kind = _RLIMITS[name]
        hard = resource.getrlimit(kind)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (bound, bound))


def become(uid: int) -> None:
    """Take on a uid and gid of the pod's own; all capabilities go with the old one.

    Raises:
        OSError: not permitted.
    """
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def die_with(parent_fd: int) -> None:
    """Let the kernel kill this process when its parent dies; undone by a change of user.

    Args:
        parent_fd: process descriptor of the parent: it may have died already, and nothing would come of that then.

    Raises:
        OSError: refused by the kernel.
    """
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    poll = select.poll()
    poll.register(parent_fd, select.POLLIN)
    if poll.poll(0):
        os._exit(1)


def lock_down() -> None:
    """Hold no right, gain none by exec, and be no target for ptrace.

    Raises:
        OSError: refused by the kernel.
    """
    linux.drop_capabilities()
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    linux.prctl(linux.PR_SET_DUMPABLE, 0)
