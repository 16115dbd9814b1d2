"""The seccomp filter as a BPF program. Pure, standard library only; installed by `linux.SeccompProgram`.

A denied call returns EPERM instead of killing the caller: programs probe for features and cope with an error.
"""

from __future__ import annotations

import errno
import struct

from confinement import syscalls

_ALLOW = 0x7FFF0000
_KILL_PROCESS = 0x80000000
_ERRNO = 0x00050000

_LOAD, _RETURN, _AND = 0x20, 0x06, 0x54
_JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_ANY_BIT = 0x15, 0x35, 0x45

_NR, _ARCH, _ARG0 = 0, 4, 16
"""Offsets in struct seccomp_data; arguments are 8 bytes each, low half first on both machines."""

_X32_BIT = 0x40000000
_CLONE_NAMESPACES = (
    0x7E020000 | 0x00000080
)  # all CLONE_NEW* flags; NEWTIME shares a bit with the exit signal
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_TYPE_MASK, _SOCK_RAW = 0xF, 3
_NETLINK_ROUTE = 0
_PRIO_USER, _IOPRIO_WHO_USER = 2, 3

Instruction = tuple[int, int, int, int]
"""(code, jump if true, jump if false, constant)."""


def build_filter(
    machine: str, *, own_namespaces: bool, memory_bounded: bool, guards_first: bool = False
) -> bytes:
    """Build the filter.

    Args:
        machine: as `os.uname().machine` names it.
        own_namespaces: the task has network, IPC and process namespaces of its own and may use them (no raw
            sockets). False: no new socket at all, only socketpair(), no shared objects, and nothing that changes
            another process of the same user; nothing else keeps the task from the host's.
        memory_bounded: a control group bounds its memory. False: it may not have any that no process's size shows.
        guards_first: nobody may signal the first process. Linux keeps a process namespace's first one from its own; gVisor
            does not.

    Returns:
        The program, eight bytes an instruction.
    """
    program: list[Instruction] = [
        _load(_ARCH),
        (_JUMP_EQUAL, 1, 0, syscalls.AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _KILL_PROCESS),
        _load(_NR),
    ]
    if machine == "x86_64":  # the x32 calls have other numbers: none of ours would match
        program += [(_JUMP_GREATER_EQUAL, 0, 1, _X32_BIT), (_RETURN, 0, 0, _KILL_PROCESS)]
    for nr in syscalls.never_needed(machine):
        program += _when(nr, [_fail(errno.EPERM)])
    # A filter cannot look into clone3's struct; libc falls back to clone when it does not exist.
    program += _when(syscalls.number("clone3", machine), [_fail(errno.ENOSYS)])
    program += _when(syscalls.number("clone", machine), _deny_bits(0, _CLONE_NAMESPACES))
    # Typing into a terminal that somebody shares.
    program += _when(syscalls.number("ioctl", machine), _deny_values(1, (_TIOCSTI, _TIOCLINUX)))
    program += _sockets(machine) if own_namespaces else _no_sockets(machine)
    if not own_namespaces:
        program += _no_other_processes(machine)
    if not (own_namespaces and memory_bounded):
        for name in syscalls.SHARED_OBJECTS:
            if name != "memfd_create" or not memory_bounded:
                program += _when(syscalls.number(name, machine), [_fail(errno.ENOSYS)])
    if guards_first:
        for name in syscalls.SIGNALS:
            program += _when(syscalls.number(name, machine), _deny_values(0, (1,)))
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _load(offset: int) -> Instruction:
    return (_LOAD, 0, 0, offset)


def _load_arg(index: int, *, high: bool = False) -> Instruction:
    return _load(_ARG0 + 8 * index + (4 if high else 0))


def _fail(number: int) -> Instruction:
    return (_RETURN, 0, 0, _ERRNO | number)


def _allow() -> Instruction:
    return (_RETURN, 0, 0, _ALLOW)


def _when(nr: int, body: list[Instruction]) -> list[Instruction]:
    """Run `body`, which always returns, when the call has this number; the number stays loaded otherwise."""
    return [(_JUMP_EQUAL, 0, len(body), nr), *body]


def _deny_bits(arg: int, bits: int) -> list[Instruction]:
    return [_load_arg(arg), (_JUMP_ANY_BIT, 0, 1, bits), _fail(errno.EPERM), _allow()]


def _deny_values(arg: int, values: tuple[int, ...]) -> list[Instruction]:
    body = [_load_arg(arg)]
    for value in values:
        body += [(_JUMP_EQUAL, 0, 1, value), _fail(errno.EPERM)]
    return [*body, _allow()]


def _no_sockets(machine: str) -> list[Instruction]:
    """Refuse sockets: Landlock below ABI 9 cannot keep a task from a host's socket by its path."""
    program = _when(syscalls.number("socket", machine), [_fail(errno.EAFNOSUPPORT)])
    for name in ("connect", "bind", "listen", "sendmsg", "sendmmsg"):
        program += _when(syscalls.number(name, machine), [_fail(errno.EPERM)])
    address = [  # send() is sendto() without an address
        _load_arg(4),
        (_JUMP_EQUAL, 0, 2, 0),
        _load_arg(4, high=True),
        (_JUMP_EQUAL, 1, 0, 0),
        _fail(errno.EPERM),
        _allow(),
    ]
    return program + _when(syscalls.number("sendto", machine), address)


def _no_other_processes(machine: str) -> list[Instruction]:
    """Refuse to change limits and priorities of anything but the caller: its user's other processes are the node's."""
    program: list[Instruction] = []
    only_itself = [_load_arg(0), (_JUMP_EQUAL, 1, 0, 0), _fail(errno.EPERM), _allow()]
    for name in syscalls.OF_A_PROCESS:
        program += _when(syscalls.number(name, machine), only_itself)
    for name, user in (("setpriority", _PRIO_USER), ("ioprio_set", _IOPRIO_WHO_USER)):
        no_user = [
            _load_arg(0),
            (_JUMP_EQUAL, 2, 0, user),
            _load_arg(1),
            (_JUMP_EQUAL, 1, 0, 0),
            _fail(errno.EPERM),
            _allow(),
        ]
        program += _when(syscalls.number(name, machine), no_user)
    return program


def _sockets(machine: str) -> list[Instruction]:
    """Allow Unix, IPv4, IPv6 and route-netlink sockets (libc lists interfaces by it), but no raw ones."""
    check_type = [
        _load_arg(1),
        (_AND, 0, 0, _SOCK_TYPE_MASK),
        (_JUMP_EQUAL, 0, 1, _SOCK_RAW),
        _fail(errno.EPERM),
        _allow(),
    ]
    netlink = [
        _load_arg(2),
        (_JUMP_EQUAL, 1, 0, _NETLINK_ROUTE),
        _fail(errno.EPERM),
        _allow(),
    ]
    body = [
        _load_arg(0),
        (_JUMP_EQUAL, 4, 0, _AF_UNIX),
        (_JUMP_EQUAL, 3, 0, _AF_INET),
        (_JUMP_EQUAL, 2, 0, _AF_INET6),
        (_JUMP_EQUAL, 1 + len(check_type), 0, _AF_NETLINK),
        _fail(errno.EAFNOSUPPORT),
        *check_type,
        *netlink,
    ]
    return _when(syscalls.number("socket", machine), body)
