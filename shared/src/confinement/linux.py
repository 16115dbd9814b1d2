"""The few Linux calls that Python's standard library lacks. Standard library only: it runs inside the zygotes."""

from __future__ import annotations

import ctypes
import os
import signal

from confinement import syscalls

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 4, 22, 24
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
SECCOMP_MODE_FILTER = 2

MACHINE = os.uname().machine

# Looked up once, here: ctypes makes a function object at each first use, and that would be in every child.
_libc = ctypes.CDLL(None, use_errno=True)
_capset, _malloc_trim, _mount = _libc.capset, _libc.malloc_trim, _libc.mount
_prctl, _setns = _libc.prctl, _libc.setns
_syscall, _umount2, _unshare = _libc.syscall, _libc.umount2, _libc.unshare
_syscall.restype = ctypes.c_long
_python = ctypes.PyDLL(None, use_errno=True)  # keeps the interpreter's lock, which a fork must hold
_python_syscall = _python.syscall
_python_syscall.restype = ctypes.c_long
_python_syscall.argtypes = [ctypes.c_long] * 6
_mount.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_ulong, ctypes.c_char_p]
_prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(option: int, value: int = 0, extra: int = 0) -> int:
    """Call prctl(2).

    Raises:
        OSError: refused by the kernel.
    """
    return _check(_prctl(option, value, extra, 0, 0), f"prctl {option}")


def unshare(flags: int) -> None:
    """Leave the namespaces named by `flags` for new ones.

    Raises:
        OSError: not permitted, or none left.
    """
    _check(_unshare(flags), "unshare")


def setns(fd: int, kind: int) -> None:
    """Enter the namespace behind `fd`.

    Raises:
        OSError: refused by the kernel.
    """
    _check(_setns(fd, kind), "setns")


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """Call mount(2).

    Raises:
        OSError: refused by the kernel; names the target.
    """
    arguments = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    _check(_mount(*arguments, flags, data.encode() or None), f"mount {target}")


def unmount(target: str) -> None:
    """Detach a mount; it goes once nothing uses it.

    Raises:
        OSError: refused by the kernel; names the target.
    """
    _check(_umount2(os.fsencode(target), MNT_DETACH), f"umount {target}")


def pivot_root_here() -> None:
    """Make the current directory, a mount point, the root, and drop the old root.

    Raises:
        OSError: refused by the kernel.
    """
    _check(_syscall(syscalls.number("pivot_root", MACHINE), b".", b"."), "pivot_root")
    unmount(".")


def syscall(name: str, *arguments: int | bytes | None) -> int:
    """Make a call of `syscalls.CALLS` by its number.

    Raises:
        OSError: the call failed; names it.
    """
    converted = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return _check(_syscall(syscalls.number(name, MACHINE), *converted), name)


def fork_into_pid_namespace() -> int:
    """Fork; the child is the first process of a new process namespace, numbered in ours for us.

    Past libc, whose thread record keeps the parent's number in the child; nothing that a runner does reads it.

    Returns:
        0 in the child, its pid in the parent.

    Raises:
        OSError: not permitted, or no resources.
    """
    _python.PyOS_BeforeFork()
    pid = int(
        _python_syscall(
            syscalls.number("clone", MACHINE), CLONE_NEWPID | signal.SIGCHLD, 0, 0, 0, 0
        )
    )
    if pid == 0:
        _python.PyOS_AfterFork_Child()
    else:
        number = ctypes.get_errno()
        _python.PyOS_AfterFork_Parent()
        if pid < 0:
            raise OSError(number, f"clone: {os.strerror(number)}")
    return pid


def drop_bounding_set() -> None:
    """Give up every capability that a later exec could bring back; what is held now stays.

    Raises:
        OSError: not permitted.
    """
    for capability in range(64):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            if capability == 0:
                raise
            return  # past the kernel's last one


def drop_capabilities() -> None:
    """Give up all capabilities that are held now.

    Raises:
        OSError: refused by the kernel.
    """
    version_3_of_myself = (0x20080522).to_bytes(4, "little") + bytes(4)
    _check(_capset(version_3_of_myself, bytes(24)), "capset")


def enter_user_namespace() -> None:
    """Enter a user namespace of our own, in which our uid and gid keep their numbers and we hold all capabilities.

    Raises:
        OSError: the machine does not let its ordinary users do that, or none is left.
    """
    uid, gid = os.getuid(), os.getgid()
    unshare(CLONE_NEWUSER)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        fd = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)


class SeccompProgram:
    """A filter in the form that the kernel takes; built once in the zygote, installed in each child."""

    def __init__(self, program: bytes) -> None:
        """Lay `program` (from `seccomp`) out in memory."""
        self._code = ctypes.create_string_buffer(program, len(program))
        pointer = ctypes.addressof(self._code)
        count = len(program) // 8
        packed = count.to_bytes(2, "little") + bytes(6) + pointer.to_bytes(8, "little")
        self._header = ctypes.create_string_buffer(packed, 16)

    def install(self) -> None:
        """Put the calling process and all that it starts under the filter, for good.

        Raises:
            OSError: refused by the kernel.
        """
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(self._header))


def malloc_trim() -> None:
    """Hand free heap memory back, so that children do not inherit it."""
    _malloc_trim(0)


BACKGROUND_NICENESS = 10


def work_in_background() -> None:
    """Let what has to be done now come first: warming pods can wait, the warm ones are there for that.

    Only as root: nobody else may give a warm pod its priority back when it is taken (its sidecar does).
    """
    if os.geteuid() == 0:
        os.setpriority(os.PRIO_PROCESS, 0, BACKGROUND_NICENESS)
