"""The fork server: one thread, no event loop, no secret. Standard library only.

Started by `adapters.zygote.client` with its control socket as an inherited descriptor. It forks what the node asks
for, reaps, and reports. A role says what a child does: `worker` (trusted sidecars), `sandbox` (confined runners).
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import socket
import sys
import traceback

from local_node.adapters.confine import linux
from local_node.adapters.zygote import protocol, tree

EXIT_CONFINEMENT_FAILED = 71
"""Exit code of a child that ended before it was confined: nothing untrusted ran."""
_ENDING_TRIES_MAX = 1000
_POLL_MS = 1000


class Role:
    """What a zygote's children do."""

    keeps_tree = False
    """True: a child's descendants belong to it and are killed with it."""

    def before_fork(self) -> None:
        """Run in the zygote right before a fork."""

    def child(self, request: protocol.Datagram, fds: list[int]) -> int:
        """Run in the child; return its exit code."""
        raise NotImplementedError


class Server:
    """The zygote's state: its children."""

    def __init__(self, control: socket.socket, role: Role) -> None:
        """Serve `control` with children of `role`."""
        self._control = control
        self._role = role
        self._pods: dict[int, str] = {}
        self._pids: dict[str, int] = {}

    def serve(self) -> None:
        """Serve until the node is gone; then end every child."""
        wake_r, wake_w = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _do_nothing)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(wake_r, select.POLLIN)
        connected = True
        while connected:
            events = dict(poll.poll(_POLL_MS))
            if wake_r in events:
                os.read(wake_r, 4096)
            self._reap()
            if self._control.fileno() in events:
                connected = self._answer()
        self._end_all()

    def _answer(self) -> bool:
        """Handle one datagram; False once the node is gone."""
        try:
            received = protocol.receive(self._control)
        except OSError:
            received = None
        if received is None:
            return False
        request, fds = received
        try:
            if request["op"] == "start":
                self._start(request, fds)
            elif request["op"] == "kill":
                self._kill(str(request["pod"]), int(str(request["signal"])))
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def _start(self, request: protocol.Datagram, fds: list[int]) -> None:
        pod = str(request["pod"])
        if pod in self._pids:
            self._tell({"op": "refused", "pod": pod, "error": "runs already"})
            return
        try:
            self._role.before_fork()
            pid = os.fork()
        except OSError as exc:
            self._tell({"op": "refused", "pod": pod, "error": f"fork: {exc}"})
            return
        if pid == 0:
            self._be_child(request, fds)
        self._pods[pid] = pod
        self._pids[pod] = pid
        self._tell({"op": "started", "pod": pod, "pid": pid})

    def _be_child(self, request: protocol.Datagram, fds: list[int]) -> None:
        code = EXIT_CONFINEMENT_FAILED
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            code = self._role.child(request, fds)
        except SystemExit as exc:
            code = exc.code if isinstance(exc.code, int) else 1
        except BaseException as exc:  # noqa: BLE001  the border of this process: report, then exit
            self._report(request, exc)
        finally:
            os._exit(code)

    def _report(self, request: protocol.Datagram, exc: BaseException) -> None:
        """Say why a child ends; its control socket is closed once it is confined, then this says nothing."""
        error = "".join(traceback.format_exception(exc))[-2000:]
        self._tell({"op": "refused", "pod": request["pod"], "error": error})

    def _kill(self, pod: str, number: int) -> None:
        pid = self._pids.get(pod)
        if pid is None:
            return
        if number == signal.SIGKILL and self._role.keeps_tree:
            tree.kill_tree(pid)
        else:
            os.kill(pid, number)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            pod = self._pods.pop(pid, None)
            if pod is None:
                continue  # an orphan of a pod that ended
            if self._role.keeps_tree:
                self._end_orphans()
            del self._pids[pod]
            code = os.waitstatus_to_exitcode(status)
            ended = {"code": code, "signal": None} if code >= 0 else {"code": None, "signal": -code}
            self._tell({"op": "exited", "pod": pod, **ended})

    def _end_orphans(self) -> None:
        """End what a dead pod left: all children of this process that it did not fork.

        Whoever loses its parent becomes a child of its pod's first process and, once that is gone, of this one.
        """
        for _ in range(_ENDING_TRIES_MAX):
            orphans = [pid for pid in tree.children(os.getpid()) if pid not in self._pods]
            if not orphans:
                return
            for pid in orphans:
                tree.kill_tree(pid)
                os.waitpid(pid, 0)

    def _end_all(self) -> None:
        for pid in list(self._pods):
            if self._role.keeps_tree:
                tree.kill_tree(pid)
            else:
                os.kill(pid, signal.SIGKILL)
        for _ in range(_ENDING_TRIES_MAX):
            try:
                pid, _status = os.waitpid(-1, 0)
            except ChildProcessError:
                return
            if self._pods.pop(pid, None) is not None and self._role.keeps_tree:
                self._end_orphans()

    def _tell(self, message: protocol.Datagram) -> None:
        try:
            protocol.send(self._control, message)
        except OSError:
            return  # the node is gone, or this child's socket is closed: serve() sees the end of file


def _do_nothing(_number: int, _frame: object) -> None:
    """Exist, so that SIGCHLD writes to the wake-up descriptor."""


def main(control_fd: int) -> int:
    """Become the zygote that the first datagram asks for.

    Args:
        control_fd: this end of the pair made by `protocol.connect_pair`.

    Returns:
        Exit code.
    """
    control = socket.socket(fileno=control_fd)
    control.set_inheritable(False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the node decides, and says so on the socket
    received = protocol.receive(control)
    if received is None:
        return 0
    config = received[0]
    try:
        role_module = importlib.import_module(f"local_node.adapters.zygote.{config['role']}")
        role: Role = role_module.prepare(config)
    except Exception as exc:  # noqa: BLE001  whatever the named module raises is told to the node
        error = "".join(traceback.format_exception(exc))[-4000:]
        protocol.send(control, {"op": "failed", "error": error})
        return 1
    sys.stdout.flush()
    gc.collect()
    gc.freeze()  # the collector never writes to what the children share
    linux.malloc_trim()
    protocol.send(control, {"op": "ready"})
    Server(control, role).serve()
    return 0
