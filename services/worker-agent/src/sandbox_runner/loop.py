"""The runner: one loop over the sidecar's channel, the tasks' pipes and the signals. Often pid 1 of its namespace."""

import gc
import json
import os
import signal
import sys
import time
from contextlib import suppress
from typing import Any

from sandbox_runner import kernel, operation, processes, protocol
from sandbox_runner.birthplace import Birthplace
from sandbox_runner.channel import Channel
from sandbox_runner.memory import Kills
from sandbox_runner.paths import Workspace
from sandbox_runner.poller import Poller
from sandbox_runner.standstill import Standstill
from sandbox_runner.task import Tasks

_PYTHON = sys.version.split()[0]
_END_S = 2.0
_END_POLL_S = 0.005
_WAIT_FOR_A_LEASE = frozenset(
    (
        protocol.RUN,
        protocol.PREPARE,
        protocol.WRITE,
        protocol.EXTRACT,
        protocol.REMOVE,
        protocol.DATA,
        protocol.END,
    )
)
"""What lets user code run, or changes files."""
_WAITING_BYTES_MAX = 8 << 20
"""The sidecar sends no more than a little of that while it has no lease itself."""


class Runner:
    """Serves one sidecar until it says BYE, goes away, or sends what is no frame."""

    def __init__(
        self, channel_fd: int, workspace: str, *, in_container: bool, leased: bool = False
    ) -> None:
        """Takes the process over: its signals, its memory, its place above its descendants.

        Args:
            channel_fd: Connected stream socket to the sidecar.
            workspace: Absolute path of the workspace.
            in_container: It is the first of its container, whose cgroup counts for it alone; it hears before the sidecar
                does that the pod is to end.
            leased: The workspace is not there before the first lease, and nothing runs or is written without one.
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
        self._still = Standstill(bounded=self._bounded, leased=leased)
        self._waiting: list[tuple[int, bytes]] = []
        self._waiting_bytes = 0
        self._poller = Poller()
        self._signals = kernel.open_signal_fd()
        self._poller.watch(self._signals, self._on_signal)
        decoder = protocol.Decoder(protocol.TO_RUNNER)
        self._channel = Channel(channel_fd, self._poller, decoder, self._on_frame, self._end)
        self._place = place = Workspace(workspace, later=leased)
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
            wanted_s = 0.0 if self._operation.ready() else self._tasks.wait_s()
            self._poller.run_once(self._still.wait_s(wanted_s))
            self._still.look()
            if not self._still.lapsed:
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

    def _renew(self, until_ns: int) -> None:
        """Takes a lease, and does what waited for one."""
        with suppress(OSError):  # its file system does not show it yet: the next lease comes soon
            self._place.open()
            self._still.renew(until_ns)
        self._replay()

    def _replay(self) -> None:
        """Does what waited, unless it has to wait on."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        for kind, payload in waiting:
            self._on_frame(kind, payload)

    def _must_wait(self, kind: int) -> bool:
        if self._still.lapsed:
            return kind in _WAIT_FOR_A_LEASE
        # It was sent before the sidecar froze, and waited for a lease; the sidecar itself sends none while it freezes.
        return self._still.frozen and kind == protocol.RUN

    def _wait(self, kind: int, payload: bytes) -> None:
        self._waiting_bytes += protocol.cost_bytes(payload)
        if self._waiting_bytes > _WAITING_BYTES_MAX:
            raise protocol.FrameError("too much waits for a lease or a thaw")
        self._waiting.append((kind, payload))

    def _on_frame(self, kind: int, payload: bytes) -> None:
        self._still.look()
        if self._must_wait(kind):
            self._wait(kind, payload)
            return
        match kind:
            case protocol.DATA:
                self._operation.data(payload)
            case protocol.ACK_OUTPUT:
                self._tasks.acknowledge(protocol.decode_count(payload))
            case protocol.ACK_DATA:
                self._operation.acknowledge(protocol.decode_count(payload))
            case protocol.PREPARE:
                if not self._still.frozen:
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
                self._tasks.run(request, payload)
            case protocol.SIGNAL:
                self._tasks.signal(request["task"], signal.Signals(request["signal"]))
            case protocol.RESIZE:
                self._tasks.resize(request["task"], request["rows"], request["cols"])
            case protocol.END:
                self._operation.end(request)
            case protocol.FREEZE | protocol.THAW:
                if kind == protocol.FREEZE:
                    self._still.freeze()
                else:
                    self._still.thaw()
                self._tasks.frozen = self._still.frozen
                self._channel.send_json(protocol.DONE, {"op": request["op"]})
                if kind == protocol.THAW:
                    self._replay()
            case protocol.LEASE:
                self._renew(int(request["until_ns"]))
            case _:
                self._operation.begin(kind, request)


def _hello(network: str) -> bytes:
    # By hand: the JSON encoder's first use would cost every idle sandbox 150 KiB.
    known = f',"network":"{network}"' if network else ""
    return (
        f'{{"version":{protocol.VERSION},"pid":{os.getpid()},"python":"{_PYTHON}"{known}}}'.encode()
    )


def main(
    channel_fd: int,
    workspace: str,
    *,
    network: str = "",
    in_container: bool = False,
    leased: bool = False,
) -> int:
    """Serves the sidecar at the other end of `channel_fd` until it lets go.

    The caller has confined this process already and closed what user code must not inherit.

    Args:
        channel_fd: Connected stream socket.
        workspace: Absolute path of the workspace, as seen from here.
        network: What network there is: `loopback` or `none`; empty: whoever started this process knows it.
        in_container: SIGTERM asks the whole pod to end: it is handed on, and the sidecar decides when.
        leased: The workspace comes with the first lease; without one nothing runs (`sandbox_runner.standstill`).

    Returns:
        The process's exit code.
    """
    gc.freeze()  # what was loaded before the fork is shared with other sandboxes: the collector must not touch it
    runner = Runner(channel_fd, workspace, in_container=in_container, leased=leased)
    return runner.serve(network)
