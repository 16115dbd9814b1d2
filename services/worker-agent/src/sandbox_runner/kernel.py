"""The few system calls that Python has no cheap function for, by ctypes. Nothing here knows of tasks.

What every idle sandbox does at its start makes as few objects as it can: each page that a forked runner writes to is its own
from then on, and blocking signals by the `signal` module alone takes fifty.

All of it is inherited over fork; what a process can't have (old kernel, no Landlock) is told by the return value, since the
confinement as such is the node's work, done before the runner starts.
"""

import ctypes
import os
import struct

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_RESTRICT_SELF = 446
_LANDLOCK_VERSION_FLAG = 1
_LANDLOCK_SCOPE_SIGNAL = 1 << 1
_LANDLOCK_ABI_WITH_SCOPES = 6
_SFD_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK
_SIGHUP, _SIGTERM, _SIGCHLD = 1, 15, 17
_SIG_BLOCK = 0
_SIGINFO_BYTES = 128
_SIGSET_BYTES = 128

_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
_libc.syscall.argtypes = [ctypes.c_long, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long]
_libc.syscall.restype = ctypes.c_long
_libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
_libc.pthread_sigmask.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
_libc.signalfd.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
_every_signal = ctypes.create_string_buffer(b"\xff" * 8, _SIGSET_BYTES)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl {option}: {os.strerror(code)}")


def set_dumpable(dumpable: bool) -> None:
    """Opens or shuts this process's memory and /proc files to other processes of its uid."""
    _prctl(_PR_SET_DUMPABLE, int(dumpable))


def set_child_subreaper() -> None:
    """Makes orphans among the descendants children of this process, so that none leaves its sight."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def set_no_new_privs() -> None:
    """Takes from this process and all below it the rights that setuid files would give (Landlock asks for it)."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def enter_signal_scope() -> bool:
    """Enters a Landlock domain from which only processes of this domain and below it can be signalled.

    Returns:
        Whether the kernel has it (Landlock ABI 6) and this process is in it now.
    """
    abi = _libc.syscall(_LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION_FLAG)
    if abi < _LANDLOCK_ABI_WITH_SCOPES:
        return False
    attributes = struct.pack("QQQ", 0, 0, _LANDLOCK_SCOPE_SIGNAL)
    ruleset = _libc.syscall(_LANDLOCK_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return False
    result = int(_libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0))
    os.close(ruleset)
    return result == 0


def open_signal_fd() -> int:
    """Opens a descriptor that reads every signal which this process has blocked.

    Returns:
        The descriptor, non-blocking, closed on exec.
    """
    fd = int(_libc.signalfd(-1, _every_signal, _SFD_FLAGS))
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"signalfd: {os.strerror(code)}")
    return fd


def read_signals(fd: int) -> list[tuple[int, int]]:
    """Reads the signals that have arrived.

    Args:
        fd: From `open_signal_fd`.

    Returns:
        Pairs of signal number and the sender's pid; the pid is 0 when the sender is outside of this pid namespace.
    """
    try:
        data = os.read(fd, 64 * _SIGINFO_BYTES)
    except BlockingIOError:
        return []
    arrived = []
    # gVisor gives one record at a time, and two bytes too many.
    for at in range(0, len(data) - _SIGINFO_BYTES + 1, _SIGINFO_BYTES):
        number, _errno, _code, sender = struct.unpack_from("IiiI", data, at)
        arrived.append((number, sender))
    return arrived


def block_signals() -> None:
    """Blocks all signals of this process: nothing but SIGKILL and SIGSTOP disturbs it; they wait for `read_signals`."""
    # What was inherited must not go on to user code; a SIGCHLD that is ignored also takes children's status away.
    for number in (_SIGCHLD, _SIGHUP, _SIGTERM):
        _libc.signal(number, None)
    _libc.pthread_sigmask(_SIG_BLOCK, _every_signal, None)


def flush_c_streams() -> None:
    """Writes out what C code of this process (extension modules) has left in its own buffers."""
    _libc.fflush(None)
