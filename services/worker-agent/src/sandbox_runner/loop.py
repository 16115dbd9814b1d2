"""The runner: one loop over the sidecar's channel, the tasks' pipes and the signals. Often pid 1 of its namespace."""

import gc
import json
import os
import signal
import sys
import time
from typing import Any

from sandbox_runner import kernel, operation, processes, protocol
from sandbox_runner.birthplace import Birthplace
from sandbox_runner.channel import Channel
from sandbox_runner.memory import Kills
from sandbox_runner.paths import Workspace
from sandbox_runner.poller import Poller
from sandbox_runner.task import Tasks

_PYTHON = sys.version.split()[0]
_END_S = 2.0
_STOP_S = 0.5
_END_POLL_S = 0.005


class Runner:
    """Serves one sidecar until it says BYE, goes away, or sends what is no frame."""

    def __init__(self, channel_fd: int, workspace: str, *, in_container: bool) -> None:
        """Takes the process over: its signals, its memory, its place above its descendants.

        Args:
            channel_fd: Connected stream socket to the sidecar.
            workspace: Absolute path of the workspace.
            in_container: It is the first of its container, whose cgroup counts for it alone; it hears before the sidecar
                does that the pod is to end.
        """
        self._in_container = in_container
        self._pid1 = os.getpid() == 1
        kernel.block_signals()
        kernel.set_dumpable(False)
        kernel.set_no_new_privs()
        in_scope = False
        if not self._pid1:
            kernel.set_child_subreaper()
            in_scope = kernel.enter_signal_scope()
        self._bounded = self._pid1 or in_scope
        self._ending = ""
        self._poller = Poller()
        self._signals = kernel.open_signal_fd()
        self._poller.watch(self._signals, self._on_signal)
        decoder = protocol.Decoder(protocol.TO_RUNNER)
        self._channel = Channel(channel_fd, self._poller, decoder, self._on_frame, self._end)
        place = Workspace(workspace)
        self._operation = operation.Operation(self._channel, place)
        birthplace = Birthplace(scoped=in_scope)
        kills = Kills() if in_container else None
        self._tasks = Tasks(self._poller, self._channel, place, birthplace, kills)

    def serve(self, network: str) -> int:
        """Runs until the end.

        Args:
            network: What network there is; empty: the caller's business.

        Returns:
            The process's exit code.
        """
        self._channel.send(protocol.HELLO, _hello(network))
        while not self._ending:
            self._poller.run_once(0.0 if self._operation.ready() else self._tasks.wait_s())
            self._operation.step()
            self._tasks.step()
        self._kill_all()
        return 0

    def _end(self, why: str) -> None:
        self._ending = self._ending or why

    def _kill_all(self) -> None:
        end_at_s = time.monotonic() + _END_S
        while time.monotonic() < end_at_s:
            processes.signal_everyone(signal.SIGKILL, bounded=self._bounded)
            processes.reap()
            if not processes.any_child():
                return
            time.sleep(_END_POLL_S)

    def _on_signal(self) -> None:
        for number, sender in kernel.read_signals(self._signals):
            # Pid 1 is told to end from outside of its namespace only: user code may signal it as it likes.
            if number == signal.SIGTERM and not (self._pid1 and sender != 0):
                if self._in_container:
                    self._channel.send(protocol.LEAVING)
                else:
                    self._end("SIGTERM")
        for pid, status in processes.reap():
            self._tasks.child_ended(pid, status)

    def _on_frame(self, kind: int, payload: bytes) -> None:
        match kind:
            case protocol.DATA:
                self._operation.data(payload)
            case protocol.ACK_OUTPUT:
                self._tasks.acknowledge(protocol.decode_count(payload))
            case protocol.ACK_DATA:
                self._operation.acknowledge(protocol.decode_count(payload))
            case protocol.PREPARE:
                if not self._tasks.frozen:
                    self._tasks.prepare_python()
            case protocol.INPUT:
                self._tasks.type(payload)
            case protocol.TERMINAL:
                self._tasks.terminal_came()
            case protocol.BYE:
                self._end("BYE")
            case _:
                try:
                    request = json.loads(payload)
                    self._on_request(kind, request, payload)
                except (ValueError, KeyError, TypeError, RecursionError) as error:
                    raise protocol.FrameError(
                        f"a request of kind {kind} is malformed: {error!r}"
                    ) from error

    def _on_request(self, kind: int, request: dict[str, Any], payload: bytes) -> None:
        match kind:
            case protocol.RUN:
                if self._tasks.frozen:
                    raise protocol.FrameError("RUN while frozen")
                self._tasks.run(request, payload)
            case protocol.SIGNAL:
                self._tasks.signal(request["task"], signal.Signals(request["signal"]))
            case protocol.RESIZE:
                self._tasks.resize(request["task"], request["rows"], request["cols"])
            case protocol.END:
                self._operation.end(request)
            case protocol.FREEZE | protocol.THAW:
                self._tasks.frozen = frozen = kind == protocol.FREEZE
                number = signal.SIGSTOP if frozen else signal.SIGCONT
                processes.signal_everyone(number, bounded=self._bounded)
                if frozen:
                    processes.wait_stopped(_STOP_S)
                self._channel.send_json(protocol.DONE, {"op": request["op"]})
            case _:
                self._operation.begin(kind, request)


def _hello(network: str) -> bytes:
    # By hand: the JSON encoder's first use would cost every idle sandbox 150 KiB.
    known = f',"network":"{network}"' if network else ""
    return (
        f'{{"version":{protocol.VERSION},"pid":{os.getpid()},"python":"{_PYTHON}"{known}}}'.encode()
    )


def main(channel_fd: int, workspace: str, *, network: str = "", in_container: bool = False) -> int:
    """Serves the sidecar at the other end of `channel_fd` until it lets go.

    The caller has confined this process already and closed what user code must not inherit.

    Args:
        channel_fd: Connected stream socket.
        workspace: Absolute path of the workspace, as seen from here.
        network: What network there is: `loopback` or `none`; empty: whoever started this process knows it.
        in_container: SIGTERM asks the whole pod to end: it is handed on, and the sidecar decides when.

    Returns:
        The process's exit code.
    """
    gc.freeze()  # what was loaded before the fork is shared with other sandboxes: the collector must not touch it
    return Runner(channel_fd, workspace, in_container=in_container).serve(network)
