"""Landlock: files, signals and abstract sockets, without any right. Standard library only: runs inside the zygotes."""

from __future__ import annotations

import os
import struct

from confinement import linux

ABI_NEEDED = 6
"""First ABI that also bounds signals and abstract sockets (kernel 6.12)."""

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_ALL = (1 << 16) - 1
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

READ = _EXECUTE | _READ_FILE | _READ_DIR
"""Read and run what is there."""
USE = READ | _WRITE_FILE | _IOCTL_DEV
"""Read and write what is there; make nothing new."""
OWN = _ALL & ~(_MAKE_CHAR | _MAKE_BLOCK)
"""Everything but devices."""

_SCOPE_ABSTRACT_SOCKET, _SCOPE_SIGNAL = 1, 2
_NET_BIND_TCP, _NET_CONNECT_TCP = 1, 2
_QUERY_VERSION = 1
_RULE_PATH_BENEATH = 1


def abi() -> int:
    """Return the kernel's Landlock version; 0 where there is none or it is switched off."""
    try:
        return linux.syscall("landlock_create_ruleset", None, 0, _QUERY_VERSION)
    except OSError:
        return 0


def restrict(rules: list[tuple[str, int]], *, tcp: bool) -> None:
    """Confine the calling process and all that it starts, for good. Needs no_new_privs.

    Args:
        rules: (path, rights below it); a path that does not exist grants nothing.
        tcp: False forbids every TCP bind and connect.

    Raises:
        OSError: refused by the kernel.
    """
    network = 0 if tcp else _NET_BIND_TCP | _NET_CONNECT_TCP
    attributes = struct.pack("=QQQ", _ALL, network, _SCOPE_ABSTRACT_SOCKET | _SCOPE_SIGNAL)
    ruleset = linux.syscall("landlock_create_ruleset", attributes, len(attributes), 0)
    try:
        for path, rights in rules:
            _allow(ruleset, path, rights)
        linux.syscall("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not os.path.isdir(path):
            rights &= _OF_A_FILE
        rule = struct.pack("=Qi", rights, fd)
        linux.syscall("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, rule, 0)
    finally:
        os.close(fd)
