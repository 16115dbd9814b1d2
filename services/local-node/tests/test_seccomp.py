"""The filter, run by a small machine of its own: what passes, what is refused, whatever the arguments."""

from __future__ import annotations

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from confinement import seccomp, syscalls

ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
MACHINES = ("x86_64", "aarch64")
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_VSOCK = 1, 2, 10, 16, 17, 40
SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_CLOEXEC, SOCK_NONBLOCK = 1, 2, 3, 0o2000000, 0o4000


def run(program: bytes, arch: int, nr: int, *arguments: int) -> int:
    """Run a filter as the kernel would; return its verdict."""
    padded = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("=IIQ6Q", nr, arch, 0, *padded)
    accumulator, at = 0, 0
    while True:
        code, if_true, if_false, constant = struct.unpack_from("=HBBI", program, at * 8)
        at += 1
        match code:
            case 0x20:
                accumulator = struct.unpack_from("=I", data, constant)[0]
            case 0x06:
                return int(constant)
            case 0x54:
                accumulator &= constant
            case 0x15:
                at += if_true if accumulator == constant else if_false
            case 0x35:
                at += if_true if accumulator >= constant else if_false
            case 0x45:
                at += if_true if accumulator & constant else if_false
            case _:
                raise AssertionError(f"unknown instruction {code:#x}")


class Filter:
    """A filter for one machine."""

    def __init__(self, machine: str, *, apart: bool, bounded: bool = True) -> None:
        """Build it: with or without namespaces, with or without a bound on memory."""
        self.machine = machine
        self.program = seccomp.build_filter(machine, own_namespaces=apart, memory_bounded=bounded)

    def call(self, name: str, *arguments: int) -> int:
        """Judge a call of `syscalls.CALLS`."""
        return self.number(syscalls.number(name, self.machine), *arguments)

    def number(self, nr: int, *arguments: int) -> int:
        """Judge a call by its number."""
        return run(self.program, syscalls.AUDIT_ARCH[self.machine], nr, *arguments)


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    """Each machine that the tables hold."""
    return str(request.param)


@pytest.mark.parametrize("apart", [True, False])
def test_what_no_task_needs_is_refused(machine: str, apart: bool) -> None:
    """Every call of the list, with or without a network namespace."""
    kept = Filter(machine, apart=apart)

    verdicts = {kept.number(nr, 0, 0) for nr in syscalls.never_needed(machine)}

    assert verdicts == {ERRNO | errno.EPERM}


@given(nr=st.integers(0, 600), arguments=st.lists(st.integers(0, 2**64 - 1), max_size=6))
@pytest.mark.parametrize("machine_name", MACHINES)
def test_every_other_call_passes(machine_name: str, nr: int, arguments: list[int]) -> None:
    """The filter ends on every input, and refuses only what it names."""
    judged = {syscalls.number(name, machine_name) for name in syscalls.CALLS}
    verdict = Filter(machine_name, apart=True).number(nr, *arguments)

    if nr in syscalls.never_needed(machine_name):
        assert verdict == ERRNO | errno.EPERM
    elif nr not in judged:
        assert verdict == ALLOW


def test_a_foreign_calling_convention_kills() -> None:
    """32-bit and x32 calls have other numbers: none of ours would match."""
    kept = Filter("x86_64", apart=True)

    assert run(kept.program, 0x40000003, 1) == KILL
    assert kept.number(0x40000000 | 165) == KILL


@pytest.mark.parametrize(
    "flag", [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]
)
def test_a_clone_into_a_namespace_is_refused(machine: str, flag: int) -> None:
    """Each CLONE_NEW flag, alone or beside those that a thread needs; clone3 is unknown, so that libc falls back."""
    kept = Filter(machine, apart=True)

    assert kept.call("clone", flag | 17) == ERRNO | errno.EPERM
    assert kept.call("clone", flag | 0x3D0F00) == ERRNO | errno.EPERM
    assert kept.call("clone3", 0) == ERRNO | errno.ENOSYS


def test_processes_and_threads_can_be_made(machine: str) -> None:
    """The flags of fork() and pthread_create()."""
    kept = Filter(machine, apart=False)

    assert kept.call("clone", 0x01200011) == ALLOW
    assert kept.call("clone", 0x003D0F00) == ALLOW


@pytest.mark.parametrize("flags", [0, SOCK_CLOEXEC, SOCK_CLOEXEC | SOCK_NONBLOCK])
def test_sockets_of_an_own_network(machine: str, flags: int) -> None:
    """Unix, IPv4, IPv6 and route netlink; nothing raw, no other family."""
    kept = Filter(machine, apart=True)

    for family in (AF_UNIX, AF_INET, AF_INET6):
        assert kept.call("socket", family, SOCK_STREAM | flags, 0) == ALLOW
        assert kept.call("socket", family, SOCK_DGRAM | flags, 17) == ALLOW
        assert kept.call("socket", family, SOCK_RAW | flags, 1) == ERRNO | errno.EPERM
    assert kept.call("socket", AF_NETLINK, SOCK_RAW | flags, 0) == ALLOW
    assert kept.call("socket", AF_NETLINK, SOCK_RAW | flags, 12) == ERRNO | errno.EPERM
    for family in (AF_PACKET, AF_VSOCK, 0, 31):
        assert kept.call("socket", family, SOCK_STREAM | flags, 0) == ERRNO | errno.EAFNOSUPPORT
    for name in ("connect", "bind", "listen", "sendto", "sendmsg", "sendmmsg"):
        assert kept.call(name, 3, 1, 1, 0, 1, 16) == ALLOW


def test_no_socket_without_an_own_network(machine: str) -> None:
    """No new socket, no address: only what was inherited, and pairs, can be talked through."""
    kept = Filter(machine, apart=False)

    assert kept.call("socket", AF_UNIX, SOCK_STREAM, 0) == ERRNO | errno.EAFNOSUPPORT
    for name in ("connect", "bind", "listen", "sendmsg", "sendmmsg"):
        assert kept.call(name, 3, 0x7F0000000000, 16) == ERRNO | errno.EPERM
    assert kept.call("sendto", 3, 0x7F00, 5, 0, 0, 0) == ALLOW
    assert kept.call("sendto", 3, 0x7F00, 5, 0, 0x7FFF00000000, 16) == ERRNO | errno.EPERM
    assert kept.call("sendto", 3, 0x7F00, 5, 0, 0x1000, 16) == ERRNO | errno.EPERM


def test_terminals_cannot_be_typed_into(machine: str) -> None:
    """TIOCSTI and TIOCLINUX; other ioctls pass."""
    kept = Filter(machine, apart=True)

    assert kept.call("ioctl", 0, 0x5412) == ERRNO | errno.EPERM
    assert kept.call("ioctl", 0, 0x541C) == ERRNO | errno.EPERM
    assert kept.call("ioctl", 0, 0x5401) == ALLOW


SHARED = sorted(set(syscalls.SHARED_OBJECTS) - {"memfd_create"})


def test_shared_objects_need_an_own_namespace_and_a_bound(machine: str) -> None:
    """Without the first they would be everybody's, without the second nobody would count them."""
    for apart, bounded in ((True, True), (True, False), (False, True), (False, False)):
        kept = Filter(machine, apart=apart, bounded=bounded)
        expected = ALLOW if apart and bounded else ERRNO | errno.ENOSYS
        assert {kept.call(name, 1, 2, 3) for name in SHARED} == {expected}
        assert kept.call("memfd_create", 1, 0) == (ALLOW if bounded else ERRNO | errno.ENOSYS)


def test_other_processes_of_the_user_cannot_be_changed(machine: str) -> None:
    """Without a process namespace a task could name the node, which may have the same user."""
    kept, apart = Filter(machine, apart=False), Filter(machine, apart=True)

    for name in syscalls.OF_A_PROCESS:
        assert kept.call(name, 0, 1, 2, 3) == ALLOW
        assert kept.call(name, 4711, 1, 2, 3) == ERRNO | errno.EPERM
        assert kept.call(name, 1, 0, 0, 0) == ERRNO | errno.EPERM
        assert apart.call(name, 4711, 1, 2, 3) == ALLOW
    for name, process, group, user in (("setpriority", 0, 1, 2), ("ioprio_set", 1, 2, 3)):
        for which in (process, group):
            assert kept.call(name, which, 0, 5) == ALLOW
            assert kept.call(name, which, 4711, 5) == ERRNO | errno.EPERM
        assert kept.call(name, user, 0, 5) == ERRNO | errno.EPERM
        assert kept.call(name, user, 1000, 5) == ERRNO | errno.EPERM
        assert apart.call(name, user, 0, 5) == ALLOW


@pytest.mark.parametrize("name", syscalls.SIGNALS)
def test_the_first_process_can_be_kept_from_signals(machine: str, name: str) -> None:
    """gVisor lets a container's processes kill its first one; any other they may signal, and all at once."""
    program = seccomp.build_filter(
        machine, own_namespaces=True, memory_bounded=True, guards_first=True
    )
    plain, nr = Filter(machine, apart=True), syscalls.number(name, machine)
    arch = syscalls.AUDIT_ARCH[machine]

    assert run(program, arch, nr, 1, 9) == ERRNO | errno.EPERM
    assert run(program, arch, nr, 1 | 1 << 32, 9) == ERRNO | errno.EPERM  # the kernel sees 32 bits
    for pid in (0, 2, 11, 2**32 - 1):
        assert run(program, arch, nr, pid, 9) == ALLOW
    assert plain.call(name, 1, 9) == ALLOW
