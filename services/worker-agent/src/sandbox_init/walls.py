"""What a sandbox's container gives up before any untrusted code runs in it. Nothing here needs a right.

The container itself (its runtime, Kubernetes) has taken most: capabilities, other pods' files, other containers' processes.
What is left is the pod's network, which both containers share, and what the runtime's own seccomp profile lets through.
"""

import fcntl
import os
import socket
import struct
from contextlib import suppress

from confinement import harden, landlock, linux, machine, seccomp

LOOPBACK = "loopback"
"""A network namespace of its own, with nothing but its loopback."""
NONE = "none"
"""No sockets at all but pairs: the runtime's profile lets nobody make namespaces, so a filter does it."""

SHARED_USER_PROCESSES = 8192
"""Bound of processes where the kernel counts those of all pods of the node together, as they have one uid: it stops a fork
bomb some time. What stops it in its own pod is the kubelet's `podPidsLimit`."""

_NOFILE = 1024
_MEMLOCK_BYTES = 64 << 10
_MIB = 1 << 20
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_LOOPBACK_UP = struct.pack("16sH14x", b"lo", _IFF_UP)
_OWN = linux.CLONE_NEWNET | linux.CLONE_NEWIPC
_ALL_IDS = 0xFFFFFFFF
_ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
"""Addresses that no network has (they are for documentation); a way there is a way out."""


class NotConfined(Exception):
    """A wall could not be built: nothing untrusted may run here."""


def confine(workspace: str, pids: int, disk_mib: int) -> str:
    """Confines the calling process and all that it will start, for good.

    Args:
        workspace: The session's directory; besides it, `/tmp` and `/dev/shm` may be written.
        pids: Most processes and threads.
        disk_mib: Size of the largest file.

    Returns:
        `LOOPBACK` or `NONE`: what network is left.

    Raises:
        NotConfined: The network could not be taken away.
        OSError: The kernel refused something else.
    """
    counted_apart = _counted_apart()
    network = _leave_network()
    harden.set_rlimits(
        {
            "core": 0,
            "fsize": disk_mib * _MIB,
            "memlock": _MEMLOCK_BYTES,
            "nofile": _NOFILE,
            "nproc": pids if counted_apart or network == LOOPBACK else SHARED_USER_PROCESSES,
        }
    )
    harden.lock_down()
    os.chdir(workspace)
    if landlock.abi() >= landlock.ABI_NEEDED:
        writable = [(path, landlock.OWN) for path in ("/tmp", "/dev/shm", workspace)]
        devices = [("/dev", landlock.USE), ("/proc", landlock.USE)]
        landlock.restrict([("/", landlock.READ), *devices, *writable], tcp=network == LOOPBACK)
    rules = seccomp.build_filter(
        linux.MACHINE,
        own_namespaces=network == LOOPBACK,
        memory_bounded=True,
        guards_first=os.getpid() == 1,
    )
    linux.SeccompProgram(rules).install()
    _check(network)
    return network


def _leave_network() -> str:
    """Moves to an empty network where that is allowed; where not, the filter has to do."""
    try:
        linux.enter_user_namespace()
        linux.unshare(_OWN)
    except OSError:
        return NONE
    # gVisor has no such call, and its loopback is up from the start.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket, suppress(OSError):
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, _LOOPBACK_UP)
    return LOOPBACK


def _counted_apart() -> bool:
    """Whether the kernel counts this container's processes apart from those of other pods with the same uid."""
    with open("/proc/self/uid_map", encoding="ascii") as file:
        maps = [line.split() for line in file]
    whole = len(maps) == 1 and [int(word) for word in maps[0]] == [0, 0, _ALL_IDS]
    return not whole or machine.is_gvisor()


def _check(network: str) -> None:
    """Tries the wall that nothing else stands behind."""
    for family, address in _ELSEWHERE:
        try:
            any_socket = socket.socket(family, socket.SOCK_DGRAM)
        except OSError:
            continue
        with any_socket:
            if network == NONE:
                raise NotConfined(
                    "it can make sockets, and nothing else keeps it from the pod's network"
                )
            try:
                any_socket.connect((address, 9))  # sends nothing: asks for a way there
            except OSError:
                continue
        raise NotConfined(f"it knows a way to {address}")
