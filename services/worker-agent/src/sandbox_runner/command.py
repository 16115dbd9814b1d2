"""Starts one program with a task's pipes, in a session of its own."""

import errno
import os
import signal
from typing import NamedTuple

from sandbox_runner import kernel

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_INHERITED = ("PATH", "TMPDIR", "TZ", "LANG", "LC_ALL")
_DIED_BEFORE_EXEC = 127


class StartError(Exception):
    """The program could not be started; nothing of it ran."""

    def __init__(self, code: str, message: str) -> None:
        """Keeps what EXIT reports.

        Args:
            code: Stable name of the reason, `exec_…`.
            message: One sentence for the user, which names the program or the directory.
        """
        super().__init__(message)
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


def start(program: Program, *, confine_signals: bool) -> int:
    """Starts the program; returns once it runs.

    Args:
        program: What to start.
        confine_signals: Put it into a signal scope of its own (costs a fork instead of a vfork).

    Returns:
        Its process id, which is its process group and session as well.

    Raises:
        StartError: No such program, no right to run it, no room for a process.
    """
    os.fchdir(program.cwd_fd)
    try:
        path = _find(program.argv[0], program.env.get("PATH", DEFAULT_PATH))
        try:
            if confine_signals:
                return _fork_and_exec(path, program)
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
                setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
            )
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
            return StartError("exec_no_resources", f"{path}: {reason}")


def _fork_and_exec(path: str, program: Program) -> int:
    """The way with a step between fork and exec: posix_spawn has no room for the signal scope."""
    report_read, report_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(path, program, report_write)
    os.close(report_write)
    report = os.read(report_read, 16)
    os.close(report_read)
    if not report:
        return pid
    os.waitpid(pid, 0)
    number = int(report)
    raise OSError(number, os.strerror(number))


def _become(path: str, program: Program, report: int) -> None:
    """Runs in the child and does not return."""
    try:
        os.setsid()
        os.dup2(program.stdin, 0)
        os.dup2(program.stdout, 1)
        os.dup2(program.stderr, 2)
        kernel.enter_signal_scope()
        for number in (
            signal.SIGPIPE,
            signal.SIGXFSZ,
        ):  # Python ignores them, and "ignored" survives an exec
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execve(path, program.argv, program.env)
    except OSError as error:
        os.write(report, str(error.errno).encode())
    except ValueError:
        os.write(report, str(errno.EINVAL).encode())
    finally:
        os._exit(_DIED_BEFORE_EXEC)
