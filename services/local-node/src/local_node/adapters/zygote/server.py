"""The fork server: one thread, no event loop, no secret. Standard library only.

Started by `adapters.zygote.client` with its control socket as an inherited descriptor. It forks what the node asks
for, reaps, and reports. A role says what a child does: `worker` (trusted sidecars), `sandbox` (confined runners).

Memory decides what stands here. Each page that the zygote writes between two forks is one that its children do not
share: with JSON and socket helpers in its loop, every sandbox was 0.5 MiB larger.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import socket

from confinement import linux
from local_node.adapters.zygote import protocol, tree

EXIT_CONFINEMENT_FAILED = 71
"""Exit code of a child that ended before it was confined: nothing untrusted ran."""
_ENDING_TRIES_MAX = 1000
_REPORT_CHARACTERS_MAX = 2000


class Role:
    """What a zygote's children do."""

    keeps_tree = False
    """True: a child's descendants belong to it and are killed with it."""
    facts: protocol.Request
    """What the node should know of it."""
    zygote_fd = -1
    """Process descriptor of the zygote, for its children."""

    def __init__(self) -> None:
        """Know nothing in particular."""
        self.facts = {}

    def fork(self) -> int:
        """Fork as os.fork() does."""
        return os.fork()

    def child(self, body: bytes, fds: tuple[int, ...]) -> int:
        """Run in the child with the request's body and descriptors; return its exit code."""
        raise NotImplementedError


class Server:
    """The zygote's state: its children."""

    def __init__(self, control: socket.socket, role: Role) -> None:
        """Serve `control` with children of `role`."""
        self._control = control
        self._role = role
        self._keys: dict[int, int] = {}
        self._pids: dict[int, int] = {}
        role.zygote_fd = os.pidfd_open(os.getpid())

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
            events = dict(poll.poll())
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
        operation, key, body, fds = received
        if operation == protocol.START:
            self._start(key, body, fds)
        elif operation == protocol.KILL:
            self._kill(key, protocol.unpack_number(body))
        for fd in fds:
            os.close(fd)
        return True

    def _start(self, key: int, body: bytes, fds: tuple[int, ...]) -> None:
        try:
            pid = self._role.fork()
        except OSError as exc:
            self.tell(protocol.REFUSED, key, f"fork: {exc}".encode())
            return
        if pid == 0:
            self._be_child(key, body, fds)
        self._keys[pid] = key
        self._pids[key] = pid
        self.tell(protocol.STARTED, key, protocol.pack_number(pid))

    def _be_child(self, key: int, body: bytes, fds: tuple[int, ...]) -> None:
        code = EXIT_CONFINEMENT_FAILED
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            code = self._role.child(body, fds)
        except SystemExit as exc:
            code = exc.code if isinstance(exc.code, int) else 1
        except BaseException as exc:  # noqa: BLE001 - the border of this process: report, then exit
            # Says nothing once the child has given up its descriptors: untrusted code may have run then.
            self.tell(protocol.REPORT, key, describe(exc).encode())
        finally:
            os._exit(code)

    def _kill(self, key: int, number: int) -> None:
        pid = self._pids.get(key)
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
            key = self._keys.pop(pid, None)
            if key is None:
                continue  # an orphan of a pod that ended
            if self._role.keeps_tree:
                self._end_orphans()
            del self._pids[key]
            self.tell(protocol.EXITED, key, protocol.pack_number(status))

    def _end_orphans(self) -> None:
        """End what a dead pod left: all children of this process that it did not fork.

        Whoever loses its parent becomes a child of its pod's first process and, once that is gone, of this one.
        """
        tree.end_children(spared=self._keys)

    def _end_all(self) -> None:
        for pid in list(self._keys):
            if self._role.keeps_tree:
                tree.kill_tree(pid)
            else:
                os.kill(pid, signal.SIGKILL)
        for _ in range(_ENDING_TRIES_MAX):
            try:
                pid, _status = os.waitpid(-1, 0)
            except ChildProcessError:
                return
            if self._keys.pop(pid, None) is not None and self._role.keeps_tree:
                self._end_orphans()

    def tell(self, operation: int, key: int, body: bytes) -> None:
        """Say something to the node; to one that is gone, nothing."""
        try:
            protocol.send(self._control, operation, key, body)
        except OSError:
            return  # the node is gone, or this child's socket is closed: serve() sees the end of file


def keep(zygote: int) -> int:
    """Wait for the end of a zygote that keeps trees, then end what it left; return its exit code.

    Where no process namespace holds a pod together, somebody must be there to whom the kernel gives a dead zygote's
    descendants.
    """
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == zygote:
            tree.end_all_children()
            return os.waitstatus_to_exitcode(status)


def describe(exc: BaseException) -> str:
    """Return an error's type, text and places, the innermost last; `traceback` costs every child 0.5 MiB."""
    places = []
    step = exc.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        places.append(f"{os.path.basename(code.co_filename)}:{step.tb_lineno}")
        step = step.tb_next
    cause = f" (from {describe(exc.__cause__)})" if exc.__cause__ is not None else ""
    text = f"{type(exc).__name__}: {exc}"[:_REPORT_CHARACTERS_MAX]
    return f"{text} [{' > '.join(places[-4:])}]{cause}"


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
    os.umask(0o022)
    received = protocol.receive(control)
    if received is None:
        return 0
    try:
        config = protocol.unpack(received[2])
        role_module = importlib.import_module(f"local_node.adapters.zygote.{config['role']}")
        role: Role = role_module.prepare(config)
    except Exception as exc:  # noqa: BLE001 - whatever the named module raises is told to the node
        protocol.send(control, protocol.FAILED, body=describe(exc).encode())
        return 1
    gc.collect()
    gc.freeze()  # the collector never writes to what the children share
    linux.malloc_trim()
    if role.keeps_tree:
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
        zygote = os.fork()
        if zygote:
            control.close()
            return keep(zygote)
        linux.prctl(linux.PR_SET_CHILD_SUBREAPER, 1)
    server = Server(control, role)
    server.tell(protocol.READY, 0, protocol.pack(role.facts))
    server.serve()
    return 0
