"""A real runner whose sidecar sends what no sidecar sends."""

from __future__ import annotations

import json
import random
import socket
import struct
from typing import Any

import pytest

from sandbox_runner import protocol


def frame(kind: int, value: Any = b"") -> bytes:
    """Build a frame; what isn't bytes becomes JSON."""
    return protocol.encode(kind, value if isinstance(value, bytes) else json.dumps(value).encode())


@pytest.mark.parametrize(
    "frames",
    [
        [b"\xff" * 64],
        [struct.pack(">IB", 2**31, protocol.RUN)],
        [frame(protocol.STDOUT, b"x")],
        [frame(protocol.RUN, b"{")],
        [frame(protocol.RUN, b"[" * 100_000)],
        [frame(protocol.RUN, {})],
        [frame(protocol.RUN, [])],
        [frame(protocol.RUN, {"task": "t", "kind": "command"})],
        [frame(protocol.RUN, {"task": "t", "kind": "command", "shell": "sleep 60"})] * 2,
        [frame(protocol.SIGNAL, {"task": "t", "signal": 4711})],
        [frame(protocol.DATA, b"x")],
        [frame(protocol.READ, {"path": "x"})],
        [frame(protocol.WRITE, {"op": 1, "path": "x"})] * 2,
        [frame(protocol.ACK_DATA, b"")],
        [frame(protocol.ACK_OUTPUT, struct.pack(">I", 2**31))],
        [
            frame(protocol.RUN, {"task": "t", "kind": "command", "shell": "sleep 60"}),
            frame(protocol.ACK_OUTPUT, struct.pack(">I", 1)),
        ],
    ],
)
def test_nonsense_from_the_sidecar_ends_the_runner_and_all_below_it(
    start: Any, frames: list[bytes]
) -> None:
    """No traceback, no survivor, no hang."""
    kit = start()
    kit.socket.settimeout(10)
    kit.socket.sendall(b"".join(frames))

    while kit.socket.recv(65536):
        pass

    assert kit.process.wait(10) == 0


def test_random_frames_never_crash_the_runner(start: Any) -> None:
    """It ends in order, whatever comes."""
    source = random.Random(7)
    for _ in range(5):
        kit = start()
        stream = b"".join(
            frame(source.choice(sorted(protocol.TO_RUNNER)), source.randbytes(source.randrange(64)))
            for _ in range(20)
        )
        kit.socket.settimeout(10)
        kit.socket.sendall(stream)
        kit.socket.shutdown(socket.SHUT_WR)
        while kit.socket.recv(65536):
            pass
        assert kit.process.wait(10) == 0
