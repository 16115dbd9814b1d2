"""A port of this machine that leads into a pod, through the API server: past network policies and without an address."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from shared.errors import NotFound, Unavailable
from shared.kubectl.call import Kubectl

FORWARDED = re.compile(rb"Forwarding from 127\.0\.0\.1:(\d+)")
FORWARD_S = 15.0
"""Longest wait for a forwarded port."""
END_S = 3.0


@contextmanager
def forwarded(kubectl: Kubectl, namespace: str, target: str, port: int) -> Iterator[int]:
    """Have a port of this machine lead to a pod while the block lasts; it breaks when that pod ends.

    Args:
        kubectl: how to ask.
        namespace: where.
        target: such as `pod/NAME` or `service/NAME`; of a Service's pods one is taken.
        port: of the target.

    Yields:
        The port of this machine.

    Raises:
        NotFound: no kubectl.
        Unavailable: it can't be forwarded; in kubectl's words.
    """
    words = ("port-forward", "-n", namespace, target, f":{port}")
    try:
        child = subprocess.Popen(
            kubectl.command(*words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
        )
    except FileNotFoundError as exc:
        raise NotFound(f"{kubectl.program} is not installed") from exc
    try:
        yield _read_port(child, target)
    finally:
        child.terminate()
        try:
            child.wait(END_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if child.stdout is not None:
            child.stdout.close()


def _read_port(child: subprocess.Popen[bytes], target: str) -> int:
    """Return the port that is forwarded, once it is.

    Raises:
        Unavailable: it said something else and ended, or nothing in time.
    """
    assert child.stdout is not None
    said, until = b"", time.monotonic() + FORWARD_S
    with selectors.DefaultSelector() as ready:
        ready.register(child.stdout, selectors.EVENT_READ)
        while (left_s := until - time.monotonic()) > 0:
            if not ready.select(left_s):
                break
            chunk = os.read(child.stdout.fileno(), 4096)
            said += chunk
            if found := FORWARDED.search(said):
                return int(found[1])
            if not chunk:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(END_S)
                break
    words = said.decode(errors="replace").strip() or f"nothing within {FORWARD_S:g} s"
    raise Unavailable(f"no port could be forwarded to {target}: {words}")
