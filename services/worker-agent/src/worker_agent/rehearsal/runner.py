"""A stand-in for the runner in the sandbox: says hello, and ends every task at once."""

from __future__ import annotations

import asyncio
import json
import socket
import time

from sandbox_runner import protocol


async def play_runner(channel: socket.socket) -> None:
    """Serve one channel until it is closed."""
    loop = asyncio.get_running_loop()
    channel.setblocking(False)
    hello = {"version": protocol.VERSION, "pid": 1, "python": "3"}
    await loop.sock_sendall(channel, _frame(protocol.HELLO, hello))
    decoder = protocol.Decoder(protocol.TO_RUNNER)
    while data := await loop.sock_recv(channel, 1 << 16):
        for kind, payload in decoder.feed(data):
            if kind == protocol.RUN:
                await loop.sock_sendall(channel, _played(json.loads(payload)["task"]))


def _played(task: str) -> bytes:
    end = {"task": task, "exit_code": 0, "signal": None, "error": None}
    return (
        _frame(protocol.STARTED, {"task": task, "at_ns": time.time_ns()})
        + protocol.encode(protocol.STDOUT, b"1\n")
        + _frame(protocol.EXIT, {**end, "interpreter": {"generation": 1}})
    )


def _frame(kind: int, fields: dict[str, object]) -> bytes:
    return protocol.encode(kind, json.dumps(fields).encode())
