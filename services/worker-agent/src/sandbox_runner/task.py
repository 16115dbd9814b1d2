"""The one task that may run: how it starts, what its process says of itself, and when its EXIT goes out."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from sandbox_runner import processes, protocol
from sandbox_runner.beginning import Beginning
from sandbox_runner.birthplace import Birthplace
from sandbox_runner.channel import Channel
from sandbox_runner.command import NO_RESOURCES, Program, StartError, default_env, start
from sandbox_runner.ending import Exit, signal_name
from sandbox_runner.interpreter import Hooks, Interpreter
from sandbox_runner.memory import Kills
from sandbox_runner.output import Drains, Pump
from sandbox_runner.paths import FileError, Workspace
from sandbox_runner.poller import Poller
from sandbox_runner.seat import Seat
from sandbox_runner.terminal import spawn as spawn_in_terminal

_SHELL = "/bin/sh"


class Tasks:
    """Runs one task after the other."""

    def __init__(
        self,
        poller: Poller,
        channel: Channel,
        workspace: Workspace,
        birthplace: Birthplace,
        kills: Kills | None,
    ) -> None:
        """Runs nothing yet.

        Args:
            poller: The loop that calls back.
            channel: To the sidecar.
            workspace: Where tasks run.
            birthplace: Where user processes are made.
            kills: Counts what the kernel kills for memory; None: the sidecar sees that itself.
        """
        self._poller = poller
        self._channel = channel
        self._workspace = workspace
        self._birthplace, self._kills = birthplace, kills
        self._nothing = os.open(os.devnull, os.O_RDONLY)
        self._drains = Drains(poller)
        hooks = Hooks(self._interpreter_started, self._interpreter_finished)
        self._interpreter = Interpreter(poller, workspace.path, hooks, birthplace)
        self._exit: Exit | None = None
        self._pump = Pump(poller, channel, self._drains)
        self._seat = Seat(poller, channel)
        self._beginning = Beginning()
        self.frozen = False
        """User code stands still: none begins."""
        self._group: int | None = None
        self._asked_ns = 0
        self._spare_order: bytes | None = None
        self._early_signal = 0

    def run(self, request: dict[str, Any], payload: bytes) -> None:
        """Starts a task; its end comes by `step`.

        Args:
            request: RUN's fields.
            payload: RUN's bytes.

        Raises:
            protocol.FrameError: A task runs already.
        """
        if self._exit is not None:
            raise protocol.FrameError("one task at a time")
        self._exit = Exit(str(request["task"]))
        self._pump = Pump(self._poller, self._channel, self._drains)
        self._beginning = Beginning()
        self._asked_ns = time.time_ns()
        self._early_signal = 0
        if request["kind"] == "python":
            self._try(lambda: self._run_python(request, payload))
        elif request.get("tty") is None:
            self._try(lambda: self._run_command(request))
        else:
            run = partial(self._run_in_terminal, request)
            self._try(partial(self._seat.open, partial(self._beginning.soon, run)))

    def _try(self, begin: Callable[[], None]) -> None:
        try:
            begin()
        except StartError as error:
            if not error.passing or not self._beginning.again(begin):
                self._failed(error.code, error.message)
        except FileError as error:
            self._failed("exec_bad_cwd", error.message)
        except OSError as error:
            self._failed(NO_RESOURCES, f"{error}")

    def prepare_python(self) -> None:
        """Has an interpreter ready for the first `python` task; failing at it is that task's business."""
        with suppress(StartError, OSError):
            self._interpreter.prepare()

    def signal(self, task: str, number: int) -> None:
        """Sends a signal to the task's process group; to a task that is over, nothing."""
        if self._exit is None or self._exit.known or self._exit.task != task:
            return
        if self._seat.waiting:
            self._seat.give_up()
            self._failed("exec_no_terminal", "ended before it had its terminal")
        elif self._beginning.take() is not None:
            self._failed(NO_RESOURCES, "ended before it could begin")
        if self._group is None:
            return
        self._spare_order = None  # whoever wants it to end does not want it begun anew
        if self._exit.started or number == signal.SIGKILL:
            self._deliver(self._group, number)
        else:
            self._early_signal = number  # an interpreter that has not come to the user's code yet

    def type(self, data: bytes) -> None:
        """Takes what was typed; what comes after a task's end, or for one without a terminal, means nothing.

        Raises:
            protocol.FrameError: More than was asked for.
        """
        if self._seat.terminal is not None:
            self._seat.terminal.type(data)

    def resize(self, task: str, rows: int, cols: int) -> None:
        """Gives the task's terminal another size.

        Raises:
            ValueError: That is no size.
        """
        if self._seat.terminal is not None and self._exit is not None and self._exit.task == task:
            self._seat.terminal.resize(rows, cols)

    def terminal_came(self) -> None:
        """The sidecar has answered NEED_TERMINAL."""
        self._try(self._seat.came)

    def acknowledge(self, count: int) -> None:
        """Takes note that the sidecar has used `count` bytes of output.

        Raises:
            protocol.FrameError: More than were sent.
        """
        if self._exit is not None:
            self._pump.acknowledge(count)

    def child_ended(self, pid: int, status: int) -> None:
        """Takes note of an ended child; most are orphans that concern nobody."""
        if pid == self._interpreter.pid:
            self._interpreter_ended(status)
        elif pid == self._group and self._exit is not None:
            self._exit.exit_code, self._exit.signal = processes.outcome(status)
            self._process_ended()

    def wait_s(self) -> float | None:
        """Seconds until `step` may have something to do without any input; None: only input can change it."""
        if self._exit is None:
            return None
        if self._beginning.waiting:  # it has no output yet
            return None if self.frozen else self._beginning.wait_s()
        return self._pump.wait_s()

    def step(self) -> None:
        """Begins what is due; sends EXIT once everything that belongs before it was sent."""
        if not self.frozen and (begin := self._beginning.take_due()) is not None:
            self._try(begin)
        if self._exit is not None and self._exit.known and self._pump.complete():
            done, self._exit = self._exit, None
            self._group = None
            self._pump.detach(hang_up=self._seat.terminal is not None)
            self._seat.terminal = None
            oom = self._kills is not None and self._kills.any_new()
            self._channel.send_json(protocol.EXIT, {**done.fields(), "oom": oom})

    def _run_command(self, request: dict[str, Any]) -> None:
        argv, env, cwd = self._asked(request)
        fds = [cwd]
        try:
            fds += os.pipe()
            fds += os.pipe()
            _, out_read, out_write, err_read, err_write = fds
            program = Program(argv, env, cwd, self._nothing, out_write, err_write)
            self._group = start(program, self._birthplace)
            fds = [cwd, out_write, err_write]
        finally:
            for fd in fds:
                os.close(fd)
        self._started(time.time_ns())
        self._pump.attach(out_read, err_read)

    def _run_in_terminal(self, request: dict[str, Any]) -> None:
        terminal, size = self._seat.terminal, request["tty"]
        if terminal is None:
            raise StartError("exec_no_terminal", "no terminal could be opened")
        argv, env, cwd = self._asked(request)
        theirs = terminal.theirs
        try:
            terminal.resize(size["rows"], size["cols"])
            program = Program(argv, env, cwd, theirs, theirs, theirs)
            self._group = start(program, self._birthplace, by=spawn_in_terminal)
        finally:
            os.close(cwd)
        self._started(time.time_ns())
        self._pump.attach(terminal.ours)

    def _asked(self, request: dict[str, Any]) -> tuple[list[str], dict[str, str], int]:
        """Returns arguments, environment and the open directory of a command."""
        shell = request.get("shell")
        argv = [_SHELL, "-c", shell] if shell is not None else list(request["argv"])
        env = {**default_env(self._workspace.path), **(request.get("env") or {})}
        return argv, env, self._workspace.open_directory(request.get("cwd") or ".")

    def _run_python(self, request: dict[str, Any], payload: bytes) -> None:
        cwd = request.get("cwd")
        if cwd is not None:
            os.close(self._workspace.open_directory(cwd))
        if not isinstance(request["code"], str):
            raise TypeError("code")
        self._spare_order = payload
        self._give(payload)

    def _give(self, payload: bytes) -> None:
        fresh = self._interpreter.run(payload)
        self._group = self._interpreter.pid
        assert self._exit is not None
        self._exit.interpreter = {"generation": self._interpreter.generation, "fresh": fresh}

    def _started(self, at_ns: int) -> None:
        assert self._exit is not None
        self._exit.started = True
        self._channel.send_json(protocol.STARTED, {"task": self._exit.task, "at_ns": at_ns})

    def _failed(self, code: str, message: str) -> None:
        assert self._exit is not None
        self._exit.error = {"code": code, "message": message[: protocol.MESSAGE_LENGTH_MAX]}
        self._process_ended()

    def _process_ended(self) -> None:
        assert self._exit is not None
        self._exit.known = True
        if self._seat.terminal is not None:
            self._seat.terminal.leader_ended(begun=self._exit.started)
        self._pump.settle()

    def _deliver(self, group: int, number: int) -> None:
        if self._seat.terminal is not None:
            self._seat.terminal.signal(group, number)
            return
        with suppress(ProcessLookupError, PermissionError):
            try:
                os.killpg(group, number)
            except ProcessLookupError:  # forked a moment ago: not in a group of its own yet
                os.kill(group, number)

    def _interpreter_started(self, at_ns: int, outputs: tuple[int, int]) -> None:
        # The child's word, bounded by what can be: user code of an earlier task may have tampered with it.
        self._started(min(max(at_ns, self._asked_ns), time.time_ns()))
        self._pump.attach(*outputs)
        if self._early_signal and self._group is not None:
            self._deliver(self._group, self._early_signal)

    def _interpreter_finished(self, exit_code: int) -> None:
        assert self._exit is not None
        self._exit.exit_code = exit_code
        self._process_ended()

    def _interpreter_ended(self, status: int) -> None:
        mine = self._group == self._interpreter.pid
        self._interpreter.reaped()
        running = self._exit if self._exit is not None and mine and not self._exit.known else None
        exit_code, number = processes.outcome(status)
        how = (
            f"exited with code {exit_code}"
            if number is None
            else f"was killed by {signal_name(number)}"
        )
        when = f"in task {running.task}" if running is not None else "between tasks"
        for fd in self._interpreter.died(f"{how} {when}") or ():
            os.close(fd)
        if running is None:
            return
        if not running.started and self._spare_order is not None:
            # An earlier task's doing; nothing of this one has run: it gets a fresh interpreter, once.
            payload, self._spare_order = self._spare_order, None
            self._group = None
            self._beginning.soon(partial(self._give, payload))
        elif not running.started:
            self._failed("exec_interpreter_lost", f"the interpreter {how} before it could begin")
        else:
            running.exit_code, running.signal = exit_code, number
            self._process_ended()
