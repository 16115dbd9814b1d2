"""What a node and its zygotes say to each other. Standard library only: used at both ends.

One datagram of a SOCK_SEQPACKET pair each: an operation, a child's key, a body; descriptors beside them. The zygote
itself reads numbers only. A body is read by the child that it is for: whatever the zygote touches between two forks
is memory that its children no longer share, hence also marshal, which is C, instead of JSON.

To a zygote:
    CONFIGURE  marshalled settings                        first datagram
    START      marshalled request, and descriptors        sidecar: channel · sandbox: channel, files that enter cgroups
    KILL       signal number                              SIGKILL to a sandbox: all its processes
To the node:
    READY      marshalled facts                           configured
    FAILED     text                                       could not be configured; the zygote exits
    STARTED    pid                                        forked
    REFUSED    text                                       not forked
    REPORT     text                                       a child says why it ends before it ran anything untrusted
    EXITED     wait status                                all its processes are gone
End of file on the pair: the node is gone. The zygote kills all that it started and exits.
"""

from __future__ import annotations

import marshal
import socket
import struct

DATAGRAM_BYTES_MAX = 128 * 1024
FDS_MAX = 8

CONFIGURE, START, KILL = 1, 2, 3
READY, FAILED, STARTED, REFUSED, REPORT, EXITED = 11, 12, 13, 14, 15, 16

_HEADER = struct.Struct("=BQ")
_NUMBER = struct.Struct("=i")
_FD_BYTES = 4
_ANCILLARY_BYTES = socket.CMSG_LEN(FDS_MAX * _FD_BYTES)
_MARSHAL_VERSION = 2  # without references: the same in every Python

Request = dict[str, object]


def pack(request: Request) -> bytes:
    """Write a request as a body. Both ends are ours and as trusted as each other, which marshal asks for.

    Raises:
        ValueError: it holds something else than strings, numbers, None, lists and dicts.
    """
    return marshal.dumps(request, _MARSHAL_VERSION)


def unpack(body: bytes) -> Request:
    """Read a body written by `pack`."""
    request = marshal.loads(body)  # noqa: S302 - from our own other end, see pack
    assert isinstance(request, dict), "a dict expected"
    return request


def pack_number(number: int) -> bytes:
    """Write a pid, a signal or a wait status as a body."""
    return _NUMBER.pack(number)


def unpack_number(body: bytes) -> int:
    """Read a body written by `pack_number`."""
    number: int = _NUMBER.unpack(body)[0]
    return number


def send(
    sock: socket.socket, operation: int, key: int = 0, body: bytes = b"", fds: tuple[int, ...] = ()
) -> None:
    """Send one datagram.

    Raises:
        ValueError: the body is too long.
        OSError: the other end is gone, or (non-blocking) its queue is full.
    """
    if len(body) > DATAGRAM_BYTES_MAX - _HEADER.size:
        raise ValueError(f"body of {len(body)} bytes, {DATAGRAM_BYTES_MAX - _HEADER.size} allowed")
    if not fds:  # a confined child's filter forbids sendmsg; it must be able to say why it ends
        sock.send(_HEADER.pack(operation, key) + body)
        return
    rights = struct.pack(f"={len(fds)}i", *fds)
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
    sock.sendmsg((_HEADER.pack(operation, key), body), ancillary)


def receive(sock: socket.socket) -> tuple[int, int, bytes, tuple[int, ...]] | None:
    """Receive one datagram; None at the end of file.

    Returns:
        Operation, key, body, descriptors (the caller's to close).

    Raises:
        BlockingIOError: (non-blocking) nothing there.
        OSError: the other end is gone.
    """
    datagram, ancillary, flags, _ = sock.recvmsg(
        DATAGRAM_BYTES_MAX, _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC
    )
    if not datagram:
        return None
    assert not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC), "a datagram was cut"
    fds: tuple[int, ...] = ()
    for _level, _kind, rights in ancillary:
        fds += struct.unpack(f"={len(rights) // _FD_BYTES}i", rights)
    operation, key = _HEADER.unpack_from(datagram)
    return operation, key, datagram[_HEADER.size :], fds


def connect_pair() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a new pair with room for the largest datagram."""
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in pair:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * DATAGRAM_BYTES_MAX)
    return pair
