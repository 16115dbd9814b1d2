"""What a node and its zygotes say to each other. Standard library only: used at both ends.

JSON objects over a SOCK_SEQPACKET pair, one a datagram, descriptors beside them.

To a zygote:
    configure {role, path, module, …}                    first datagram
    start     {pod, …} + descriptors                     sidecar: channel · sandbox: channel, cgroup.procs files
    kill      {pod, signal}                              9 for a sandbox: all its processes
To the node:
    ready     {}                 configured               · failed  {error}: could not be; the zygote exits
    started   {pod, pid}         forked
    refused   {pod, error}       not forked, or its confinement failed (an `exited` follows if it was forked)
    exited    {pod, code, signal} all its processes are gone
End of file on the pair: the node is gone. The zygote kills all that it started and exits.
"""

from __future__ import annotations

import json
import socket

DATAGRAM_BYTES_MAX = 128 * 1024
FDS_MAX = 8

Datagram = dict[str, object]


def send(sock: socket.socket, message: Datagram, fds: list[int] | None = None) -> None:
    """Send one datagram.

    Raises:
        OSError: the other end is gone, or (non-blocking) its queue is full.
    """
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) > DATAGRAM_BYTES_MAX:
        raise ValueError(f"datagram of {len(body)} bytes, {DATAGRAM_BYTES_MAX} allowed")
    if fds:
        socket.send_fds(sock, [body], fds)
    else:
        sock.send(body)


def receive(sock: socket.socket) -> tuple[Datagram, list[int]] | None:
    """Receive one datagram with its descriptors; None at the end of file.

    Raises:
        BlockingIOError: (non-blocking) nothing there.
        OSError: the other end is gone.
    """
    body, fds, flags, _ = socket.recv_fds(sock, DATAGRAM_BYTES_MAX, FDS_MAX)
    if not body:
        return None
    assert not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC), "a datagram was cut"
    message = json.loads(body)
    assert isinstance(message, dict), "an object expected"
    return message, fds


def connect_pair() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a new pair with room for the largest datagram."""
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in pair:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * DATAGRAM_BYTES_MAX)
    return pair
