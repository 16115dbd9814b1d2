"""Starts one program with a task's pipes, in a session of its own."""

import errno
import os
from collections.abc import Callable
from typing import NamedTuple

from sandbox_runner.birthplace import Birthplace

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_INHERITED = ("PATH", "TMPDIR", "TZ", "LANG", "LC_ALL", "USER", "LOGNAME", "SHELL")
DEFAULTED = [number for number in range(1, 65) if number not in (9, 19, 32, 33)]
"""All signals but SIGKILL, SIGSTOP and libc's own: what Python ignores, an exec would hand down."""


NO_RESOURCES = "exec_no_resources"
"""There was no room for a process, or for what it needs."""
_PASSING = (errno.EAGAIN, errno.ENOMEM, errno.ENFILE)
"""What others have taken, and may give back at any moment."""


class StartError(Exception):
    """The program could not be started; nothing of it ran."""

    def __init__(self, code: str, message: str, *, passing: bool = False) -> None:
        """Keeps what EXIT reports.

        Args:
            code: Stable name of the reason, `exec_…`.
            message: One sentence for the user, which names the program or the directory.
            passing: It may be otherwise a moment later.
        """
        super().__init__(message)
        self.passing = passing
        self.code = code
        self.message = message


class Program(NamedTuple):
    """What to start."""

    argv: list[str]
    env: dict[str, str]
    cwd_fd: int
    stdin: int
    stdout: int
    stderr: int


def default_env(workspace: str) -> dict[str, str]:
    """Environment that every task starts from: little of the runner's own, so that nothing leaks by accident."""
    return {
        "PATH": DEFAULT_PATH,
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",  # output reaches the client as it comes, and survives a kill
        **{name: os.environ[name] for name in _INHERITED if name in os.environ},
        "HOME": workspace,
        "WORKSPACE": workspace,
    }


Spawn = Callable[[str, Program], int]
"""Starts the file at a path as a program, returns its process id, raises OSError or ValueError."""


def spawn(path: str, program: Program) -> int:
    """By posix_spawn: it shares the runner's memory until the exec, where a fork would first copy its page tables."""
    return os.posix_spawn(
        path,
        program.argv,
        program.env,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, program.stdin, 0),
            (os.POSIX_SPAWN_DUP2, program.stdout, 1),
            (os.POSIX_SPAWN_DUP2, program.stderr, 2),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=DEFAULTED,
    )


def start(program: Program, birthplace: Birthplace, by: Spawn = spawn) -> int:
    """Starts the program; returns once it runs.

    Args:
        program: What to start.
        birthplace: Where.
        by: How.

    Returns:
        Its process id, which is its process group and session as well.

    Raises:
        StartError: No such program, no right to run it, no room for a process.
    """
    os.fchdir(program.cwd_fd)
    try:
        path = _find(program.argv[0], program.env.get("PATH", DEFAULT_PATH))
        try:
            return birthplace.bear(lambda: by(path, program))
        except OSError as error:
            raise _start_error(path, error) from error
        except ValueError as error:  # an argument or a variable holds a NUL or "="
            raise StartError("exec_invalid", f"{program.argv[0]!r}: {error}") from error
    finally:
        os.chdir("/")


def _find(name: str, search_path: str) -> str:
    """Looks a program up as execvp(3) does."""
    if "/" in name:
        return name
    denied = ""
    for folder in search_path.split(":"):
        path = f"{folder or '.'}/{name}"
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
        if not denied and os.path.isfile(path):
            denied = path
    if denied:
        raise StartError("exec_not_executable", f"{denied}: not executable")
    raise StartError("exec_not_found", f"{name}: no such program in {search_path}")


def no_resources(what: str, error: OSError) -> StartError:
    """Says that `what` could not be started now."""
    reason = error.strerror or str(error)
    if error.errno == errno.EAGAIN:
        reason = f"no process could be made ({reason}): as many run as may"
    return StartError(NO_RESOURCES, f"{what}: {reason}", passing=error.errno in _PASSING)


def _start_error(path: str, error: OSError) -> StartError:
    reason = os.strerror(error.errno or errno.EIO)
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            if os.path.exists(path):
                return StartError(
                    "exec_not_executable",
                    f"{path}: the interpreter that its first line names is missing",
                )
            return StartError("exec_not_found", f"{path}: {reason}")
        case (
            errno.EACCES | errno.EPERM | errno.ENOEXEC | errno.EISDIR | errno.ELOOP | errno.ETXTBSY
        ):
            return StartError("exec_not_executable", f"{path}: {reason}")
        case errno.EINVAL:
            return StartError(
                "exec_invalid", f"{path}: an argument or a variable can't be passed on"
            )
        case errno.E2BIG:
            return StartError("exec_too_long", f"{path}: arguments and environment are too long")
        case _:
            return no_resources(path, error)
