"""First and last words of a sidecar: the mark, the socket, the end of the pod. Standard library only."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import time
from contextlib import suppress

from worker_agent.marker import mark_used

BURY_S = 60.0
"""Longest wait for the end of the sandbox's container, after which the kubelet ends this one."""
MESSAGE_BYTES_MAX = 4096
"""The kubelet keeps no more of it."""

_LISTEN_BACKLOG = 1


class Paths:
    """Where the pod's volumes are in the sidecar's container."""

    def __init__(self) -> None:
        """Read the environment; without it, the places that the pod's form gives them."""
        get = os.environ.get
        self.own = get("POD_OWN_DIR", "/run/sidecar")
        """Only the sidecar's: the mark that a pod was used, and what is in its workspace."""
        self.socket = get("POD_SOCKET", "/run/agent/runner.sock")
        self.last_words = get("POD_LAST_WORDS", "/dev/termination-log")
        """What is written there stands in the pod's status."""


def main() -> int:
    """Be the sidecar of one pod, to its end.

    Returns:
        The exit code.
    """
    # As a container's first process it would not hear SIGTERM otherwise. Nothing is held that must be handed over: what
    # holds a session has a handler of its own.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    paths = Paths()
    listener = listen(paths.socket)
    if not mark_used(paths.own):
        tell(
            paths, "this pod was used before: its sidecar was restarted, and serves nobody any more"
        )
        code = 0
    else:
        gc.disable()  # nothing that is loaded is garbage; `run` lets it look at what comes after
        from shared.lean import stay_lean  # noqa: PLC0415 - the socket and the mark come first

        stay_lean()
        from worker_agent.sidecar.run import run  # noqa: PLC0415 - likewise

        code, why = run(listener)
        if why:
            tell(paths, why)
    bury(listener)
    return code


def listen(path: str) -> socket.socket:
    """Listen where the sandbox's first process looks for its sidecar."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    os.chmod(path, 0o666)  # the sandbox has another uid; nobody else has the volume
    listener.listen(_LISTEN_BACKLOG)
    return listener


def shut(listener: socket.socket) -> None:
    """Take no further connection: what runs in the sandbox may see the volume."""
    os.unlink(listener.getsockname())
    listener.close()


def bury(listener: socket.socket) -> None:
    """End the sandbox's container, if it still waits for us, and wait to be ended: who exits first is restarted."""
    if listener.fileno() < 0:  # it has had its connection, and that is closed
        time.sleep(BURY_S)
        return
    listener.settimeout(BURY_S)
    with suppress(OSError):
        while True:
            channel, _ = listener.accept()
            channel.close()  # its runner ends by that


def tell(paths: Paths, why: str) -> None:
    """Leave a sentence in the pod's status, and in the log."""
    sys.stderr.write(f"{why}\n")
    with suppress(OSError), open(paths.last_words, "wb") as file:
        file.write(why.encode()[:MESSAGE_BYTES_MAX])
