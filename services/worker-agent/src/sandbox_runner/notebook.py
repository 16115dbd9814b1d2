"""The interpreter itself: runs in the forked child, hosts user code, keeps its variables from task to task.

Like a notebook: the last expression's value is shown, an error ends the task but not the interpreter. Whatever user code
does to this process it does to itself; the runner learns of its death from the kernel.
"""

import fcntl
import json
import os
import signal
import struct
import sys
import time
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import Any, NamedTuple

from sandbox_runner import cells, kernel, protocol
from sandbox_runner.command import default_env

PIPES = 1
"""To the runner: numbers of the read ends of the next task's pipes in this process (2 x u32)."""
BEGUN = 2
"""To the runner: time in ns (u64); the next thing to run is the user's first instruction."""
ENDED = 3
"""To the runner: exit code (u8); all output is in the pipes."""
GO = 4
"""From the runner: the pipes are open at its end."""

_CONTROL_FD_MIN = 100
_FDS_MAX = 65536
_SOURCES_KEPT = 256
_OUR_FILES = (__file__,)


class Order(NamedTuple):
    """What a `python` task asks for."""

    code: str
    env: dict[str, str]
    cwd: str | None


class Fds(NamedTuple):
    """Descriptors of the child."""

    control: int
    nothing: int


def take_over(control: int) -> Fds:
    """Makes the runner's copy of its descriptors this process's own: silent standard streams, control, nothing else.

    Args:
        control: Socket to the runner.

    Returns:
        The descriptors, numbered high: out of the way of code that closes or counts them.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    fds = Fds(
        *(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _CONTROL_FD_MIN) for fd in (control, nothing))
    )
    os.set_blocking(fds.control, True)
    start = 3
    for kept in sorted(fds):
        os.closerange(start, kept)
        start = kept + 1
    os.closerange(start, _FDS_MAX)
    return fds


class Notebook:
    """Variables, sources and standard streams of one generation."""

    def __init__(self, fds: Fds, workspace: str) -> None:
        """Gives user code its world.

        Args:
            fds: From `take_over`.
            workspace: First working directory.
        """
        self._fds = fds
        self._workspace = workspace
        self._pid = os.getpid()
        self._control_inode = os.fstat(fds.control).st_ino
        self._decoder = protocol.Decoder(frozenset((protocol.RUN, GO)))
        self._offer_outputs()
        self._count = 0
        self._sources: dict[str, str] = {}
        self._interrupt: Any = signal.default_int_handler
        os.chdir(workspace)
        os.environ.clear()
        os.environ.update(default_env(workspace))
        sys.argv = [""]
        sys.path.insert(0, "")
        sys.modules["__main__"] = self._main = ModuleType("__main__")
        signal.signal(signal.SIGINT, _not_now)
        self._open_streams()

    def warm_up(self) -> None:
        """Writes to the pages now that every task writes to: they are the runner's until then, and copying takes time."""
        cells.compile_cell("warm = [1]\nwarm", "<warm-up>")
        json.loads('{"code": "", "env": {}}')

    def serve(self) -> int:
        """Runs task after task; returns the process's exit code once the runner is gone, or user code has cut us off."""
        while True:
            order = self._next_order()
            if order is None or not self._take_outputs():
                return 0
            code = self._run(order)
            self._flush()
            if os.getpid() != self._pid:
                return code  # a copy that user code forked and let run on: it has no say here
            if not self._rest() or not self._tell(ENDED, struct.pack(">B", code)):
                return code  # our descriptors are closed: the runner takes this process's end for the task's
            self._offer_outputs()

    def _rest(self) -> bool:
        """Lets threads that print between tasks print to nobody."""
        try:
            os.dup2(self._fds.nothing, 1)
            os.dup2(self._fds.nothing, 2)
        except OSError:
            return False
        return True

    def _tell(self, kind: int, payload: bytes) -> bool:
        """Writes to the runner, unless user code has closed the socket and the number means something else now."""
        try:
            if os.fstat(self._fds.control).st_ino != self._control_inode:
                return False
            os.write(self._fds.control, protocol.encode(kind, payload))
        except OSError:
            return False
        return True

    def _offer_outputs(self) -> None:
        """Makes the next task's pipes before it comes, so that the runner has them open by then."""
        self._outputs = (*os.pipe(), *os.pipe())
        self._tell(PIPES, struct.pack(">II", self._outputs[0], self._outputs[2]))

    def _next_order(self) -> Order | None:
        """Waits for a task and for the runner to have opened the pipes; None: there's no runner any more."""
        order: Order | None = None
        opened = False
        while order is None or not opened:
            try:
                data = os.read(self._fds.control, 256 << 10)
            except OSError:
                return None
            if not data:
                return None
            for kind, payload in self._decoder.feed(data):
                if kind == GO:
                    opened = True
                else:
                    fields = json.loads(payload)
                    order = Order(fields["code"], fields.get("env") or {}, fields.get("cwd"))
        return order

    def _take_outputs(self) -> bool:
        try:
            os.dup2(self._outputs[1], 1)
            os.dup2(self._outputs[3], 2)
            for fd in self._outputs:
                os.close(fd)
        except OSError:  # a thread of the user's has closed them
            return False
        ours = (sys.__stdin__, sys.__stdout__, sys.__stderr__)
        if any(stream is None or stream.closed for stream in ours):
            self._open_streams()
        return True

    def _open_streams(self) -> None:
        sys.stdin = sys.__stdin__ = cells.open_stream(0, "r")  # type: ignore[misc, assignment]  # replaced on purpose
        sys.stdout = sys.__stdout__ = cells.open_stream(1, "w")  # type: ignore[misc, assignment]  # as above
        sys.stderr = sys.__stderr__ = cells.open_stream(2, "w")  # type: ignore[misc, assignment]  # as above
        self._streams = (sys.stdout, sys.stderr)

    def _flush(self) -> None:
        for stream in (sys.stdout, sys.stderr, *self._streams):
            try:
                stream.flush()
            except Exception:  # noqa: BLE001, S112 - whatever user code has put there, the task has ended
                continue
        kernel.flush_c_streams()

    def _run(self, order: Order) -> int:
        before = {name: os.environ.get(name) for name in order.env}
        os.environ.update(order.env)
        try:
            return self._run_code(order)
        except KeyboardInterrupt:  # came in the few instructions of ours around the user's
            return 1
        finally:
            signal.signal(signal.SIGINT, _not_now)
            for name, value in before.items():
                if os.environ.get(name) != order.env[name]:
                    continue  # user code has changed it since: that stays
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value

    def _run_code(self, order: Order) -> int:
        self._count += 1
        name = f"<task {self._count}>"
        self._remember(name, order.code)
        units: list[CodeType] = []
        failure: BaseException | None = None
        try:
            units = cells.compile_cell(order.code, name)
            if order.cwd is not None:
                os.chdir(f"{self._workspace}/{order.cwd}")
        except Exception as error:  # noqa: BLE001 - SyntaxError, ValueError, RecursionError…: shown as the user's
            failure = error.with_traceback(None)
        if failure is None:
            failure = self._execute(units)
        else:
            self._begin()
        return 0 if failure is None else self._show(failure)

    def _begin(self) -> None:
        self._tell(BEGUN, struct.pack(">Q", time.time_ns()))

    def _execute(self, units: list[CodeType]) -> BaseException | None:
        signal.signal(
            signal.SIGINT, self._interrupt
        )  # first: the runner holds interrupts back until we have begun
        try:
            self._begin()
            for unit in units:
                exec(unit, self._main.__dict__)  # noqa: S102 - running the user's code is the point
        except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt are a task's end, not ours
            return error
        finally:
            self._interrupt = signal.getsignal(signal.SIGINT)
            signal.signal(signal.SIGINT, _not_now)
        return None

    def _show(self, error: BaseException) -> int:
        """Tells the user of an uncaught exception, as `python` would; returns the exit code."""
        if isinstance(error, SystemExit):
            if error.code is None:
                return 0
            if isinstance(error.code, int):
                return error.code & 0xFF
            _print_error(str(error.code))
            return 1
        import linecache  # noqa: PLC0415 - memory that an interpreter without errors does not need
        import traceback  # noqa: PLC0415 - as above

        for name, source in self._sources.items():
            linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        try:
            if sys.excepthook is not sys.__excepthook__:
                sys.excepthook(type(error), error, _users_part(error.__traceback__))
            else:
                traceback.print_exception(error.with_traceback(_users_part(error.__traceback__)))
        except BaseException as second:  # noqa: BLE001 - a broken __str__ or hook of the user's
            _print_error(f"{type(error).__name__} (showing it failed: {type(second).__name__})")
        return 1

    def _remember(self, name: str, source: str) -> None:
        self._sources[name] = source
        if len(self._sources) > _SOURCES_KEPT:
            del self._sources[next(iter(self._sources))]


def _users_part(trace: TracebackType | None) -> TracebackType | None:
    """Cuts our own frames off the outer end."""
    while trace is not None and trace.tb_frame.f_code.co_filename in _OUR_FILES:
        trace = trace.tb_next
    return trace


def _print_error(text: str) -> None:
    try:
        sys.stderr.write(text + "\n")
    except Exception:  # noqa: BLE001 - user code may have put anything there
        os.write(2, text.encode(errors="backslashreplace") + b"\n")


def _not_now(_number: int, _frame: FrameType | None) -> None:
    """An interrupt outside of user code is for nobody."""
