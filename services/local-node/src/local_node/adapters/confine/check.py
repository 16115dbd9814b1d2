"""What a sandbox must hold before its class is offered; runs inside a trial sandbox. Standard library only."""

from __future__ import annotations

import os
import sys

_INTERFACES_ALLOWED = {"lo", "tunl0", "sit0", "ip6tnl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "ip6gre0"}  # fmt: skip
"""Loopback, and the fallback devices that some kernels put, down, into every network namespace."""


class CheckFailed(Exception):
    """A wall of the class is missing, or what the runner needs is out of its reach."""


def check(isolation: str, workspace: str) -> None:
    """Try the walls of a class from inside.

    Raises:
        CheckFailed: names what is wrong.
    """
    try:
        os.stat(sys.executable)
        os.listdir(os.path.dirname(os.__file__))
    except OSError as exc:
        raise CheckFailed(
            f"the interpreter is not readable to the sandbox: {exc.filename}: {exc.strerror or exc}"
        ) from None
    path = f"{workspace}/.check"
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    os.unlink(path)
    if isolation == "process":
        return
    for folder in ("/", "/usr", "/etc", "/var/tmp", os.path.dirname(workspace)):
        if folder == "/var/tmp" and isolation == "namespace":
            continue  # its own /tmp
        _must_fail(f"{folder}/.check")
    if isolation == "namespace":
        if os.getpid() != 1:
            raise CheckFailed("it is not the first process of a process namespace")
        with open("/proc/net/dev", encoding="ascii") as file:
            names = {line.partition(":")[0].strip() for line in file.readlines()[2:]}
        if names - _INTERFACES_ALLOWED:
            raise CheckFailed(f"it sees network interfaces: {sorted(names - _INTERFACES_ALLOWED)}")
    elif os.path.exists("/proc/1/environ"):
        try:
            os.close(os.open(f"/proc/{os.getppid()}/environ", os.O_RDONLY))
        except OSError:
            return
        raise CheckFailed("it can read another process's environment")


def _must_fail(path: str) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        return
    raise CheckFailed(f"it can write {path}")
