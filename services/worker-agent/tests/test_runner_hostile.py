"""The sidecar's channel against user code that has taken over the sandbox's end."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest

from sandbox_runner import protocol
from worker_agent.adapters.runner import (
    ProtocolViolation,
    Run,
    RunnerChannel,
    RunnerLimits,
    RunnerLost,
    Watch,
)

HELLO = {"version": protocol.VERSION, "pid": 1, "python": "3.11.7"}


STARTED = {"task": "t", "at_ns": 1}


EXIT = {"task": "t", "exit_code": 0, "signal": None, "error": None, "interpreter": None}


LIMITS = RunnerLimits(hello_s=5, start_s=0.3, kill_s=0.2, reply_s=0.3)


def frame(kind: int, value: Any = b"") -> bytes:
    """Build a frame; what isn't bytes becomes JSON."""
    return protocol.encode(kind, value if isinstance(value, bytes) else json.dumps(value).encode())


async def ignore(*_anything: Any) -> None:
    """Watch nothing."""


class Impostor:
    """Plays the runner, byte by byte."""

    def __init__(self) -> None:
        """Wait for `begin`."""
        ours, self._theirs = socket.socketpair()
        self._ours = ours.detach()
        self.channel: RunnerChannel
        self.writer: asyncio.StreamWriter
        self.reader: asyncio.StreamReader

    async def begin(self, greeting: bytes) -> RunnerChannel:
        """Open both ends."""
        self.reader, self.writer = await asyncio.open_unix_connection(sock=self._theirs)
        self.writer.write(greeting)
        self.channel = await RunnerChannel.open(self._ours, LIMITS)
        return self.channel

    async def heard(self, kind: int) -> bytes:
        """Wait for a frame of the sidecar's."""
        while True:
            length, got = struct.unpack(">IB", await self.reader.readexactly(5))
            payload = await self.reader.readexactly(length)
            if got == kind:
                return payload

    def say(self, *frames: bytes) -> None:
        """Send bytes."""
        self.writer.write(b"".join(frames))


@pytest.fixture
async def impostor() -> AsyncIterator[Impostor]:
    """A sandbox that user code has taken over."""
    one = Impostor()
    yield one
    if hasattr(one, "channel"):
        await one.channel.close()
    one.writer.transport.abort()
    with suppress(OSError):
        await one.writer.wait_closed()


@pytest.mark.parametrize(
    "greeting",
    [
        frame(protocol.HELLO, {**HELLO, "version": 99}),
        frame(protocol.HELLO, {"version": 1}),
        frame(protocol.HELLO, {**HELLO, "pid": -1}),
        frame(protocol.HELLO, {**HELLO, "python": "x" * 100_000}),
        frame(protocol.HELLO, b"\xff\xfe"),
        frame(protocol.HELLO, b"[" * 200_000),
        frame(protocol.STARTED, STARTED),
        frame(protocol.BYE),
        struct.pack(">IB", 2**31, protocol.HELLO),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x9b\x07\xf1\x40" * 16 + b"\xff" * 8,
    ],
)
async def test_a_wrong_greeting_is_a_violation(impostor: Impostor, greeting: bytes) -> None:
    """The channel never opens."""
    with pytest.raises(ProtocolViolation):
        await impostor.begin(greeting)


@pytest.mark.parametrize("closed", [True, False])
async def test_a_runner_that_says_nothing_is_given_up(closed: bool) -> None:
    """Whether it is gone, or there and silent: a deadline stands on the greeting."""
    ours, theirs = socket.socketpair()
    if closed:
        theirs.close()
    with pytest.raises(RunnerLost):
        await RunnerChannel.open(ours.detach(), RunnerLimits(hello_s=0.2))
    theirs.close()


TASK_LIES: dict[str, list[bytes]] = {
    "output before STARTED": [frame(protocol.STDOUT, b"x")],
    "end before STARTED": [frame(protocol.EXIT, EXIT)],
    "STARTED for another task": [frame(protocol.STARTED, {**STARTED, "task": "other"})],
    "STARTED twice": [frame(protocol.STARTED, STARTED)] * 2,
    "STARTED with text for a time": [frame(protocol.STARTED, {**STARTED, "at_ns": "now"})],
    "end of another task": [
        frame(protocol.STARTED, STARTED),
        frame(protocol.EXIT, {**EXIT, "task": "x"}),
    ],
    "end with nothing": [
        frame(protocol.STARTED, STARTED),
        frame(protocol.EXIT, {**EXIT, "exit_code": None}),
    ],
    "end with both": [
        frame(protocol.STARTED, STARTED),
        frame(protocol.EXIT, {**EXIT, "signal": 9}),
    ],
    "exit code out of range": [
        frame(protocol.STARTED, STARTED),
        frame(protocol.EXIT, {**EXIT, "exit_code": 256}),
    ],
    "endless error": [
        frame(
            protocol.EXIT,
            {**EXIT, "exit_code": None, "error": {"code": "c", "message": "m" * 9999}},
        )
    ],
    "output after the end": [
        frame(protocol.STARTED, STARTED),
        frame(protocol.EXIT, EXIT),
        frame(protocol.STDOUT, b"x"),
    ],
    "end twice": [
        frame(protocol.STARTED, STARTED),
        frame(protocol.EXIT, EXIT),
        frame(protocol.EXIT, EXIT),
    ],
    "empty output": [frame(protocol.STARTED, STARTED), frame(protocol.STDOUT)],
    "data that nobody reads": [frame(protocol.DATA, b"x")],
    "answer to nothing": [frame(protocol.DONE, {"op": 1})],
    "refusal of nothing": [frame(protocol.FAILED, {"op": 1, "code": "c", "message": "m"})],
    "HELLO again": [frame(protocol.HELLO, HELLO)],
    "a kind of the sidecar's": [frame(protocol.RUN, {})],
}


@pytest.mark.parametrize("lie", TASK_LIES)
async def test_a_lie_about_a_task_is_a_violation(impostor: Impostor, lie: str) -> None:
    """Wrong order, wrong task, wrong types: the channel ends and says why."""
    channel = await impostor.begin(frame(protocol.HELLO, HELLO))
    running = asyncio.create_task(
        channel.run(Run(task="t", kind="command", shell=""), Watch(ignore, ignore))
    )
    await impostor.heard(protocol.RUN)
    impostor.say(*TASK_LIES[lie])

    lost = await asyncio.wait_for(channel.wait_lost(), 5)

    assert isinstance(lost, ProtocolViolation)
    assert channel.lost is lost
    await asyncio.gather(running, return_exceptions=True)
    with pytest.raises(ProtocolViolation):
        await channel.run(Run(task="u", kind="command", shell=""), Watch(ignore, ignore))


@pytest.mark.parametrize("piece", [1, 100, 65536])
async def test_output_beyond_the_window_is_a_violation_and_was_never_held(
    impostor: Impostor, piece: int
) -> None:
    """A runner that ignores our pace, in pieces of any size, ends its pod."""
    channel = await impostor.begin(frame(protocol.HELLO, HELLO))
    stuck = asyncio.Event()

    async def never(*_anything: Any) -> None:
        await stuck.wait()

    running = asyncio.create_task(
        channel.run(Run(task="t", kind="command", shell=""), Watch(ignore, never))
    )
    await impostor.heard(protocol.RUN)
    impostor.say(frame(protocol.STARTED, STARTED))
    flood = frame(protocol.STDOUT, bytes(piece)) * (
        4 * protocol.WINDOW_BYTES // (piece + protocol.FRAME_COST_BYTES)
    )
    impostor.say(flood)

    assert isinstance(await asyncio.wait_for(channel.wait_lost(), 5), ProtocolViolation)
    stuck.set()
    with pytest.raises(ProtocolViolation, match="beyond"):
        await running


async def test_a_task_that_never_begins_ends_the_channel(impostor: Impostor) -> None:
    """A frozen runner is as good as a dead one."""
    channel = await impostor.begin(frame(protocol.HELLO, HELLO))

    with pytest.raises(RunnerLost, match="did not begin"):
        await channel.run(Run(task="t", kind="command", shell=""), Watch(ignore, ignore))


async def test_a_task_that_survives_sigkill_ends_the_channel(impostor: Impostor) -> None:
    """SIGINT, SIGKILL, and then no patience any more."""
    channel = await impostor.begin(frame(protocol.HELLO, HELLO))
    running = asyncio.create_task(
        channel.run(Run(task="t", kind="command", shell=""), Watch(ignore, ignore))
    )
    await impostor.heard(protocol.RUN)
    impostor.say(frame(protocol.STARTED, STARTED))
    channel.stop(0.1)

    numbers = [json.loads(await impostor.heard(protocol.SIGNAL))["signal"] for _ in range(2)]

    assert numbers == [2, 9]
    with pytest.raises(RunnerLost, match="SIGKILL"):
        await running


FILE_LIES: dict[str, Callable[[int], list[bytes]]] = {
    "more than asked for": lambda _op: [frame(protocol.DATA, b"x" * 11)],
    "another operation": lambda op: [frame(protocol.DONE, {"op": op + 1})],
    "an end twice": lambda op: [frame(protocol.DONE, {"op": op})] * 2,
    "data after the end": lambda op: [frame(protocol.DONE, {"op": op}), frame(protocol.DATA, b"x")],
    "a flood": lambda _op: [frame(protocol.DATA, bytes(65536))] * 20,
    "no JSON": lambda _op: [frame(protocol.DONE, b"{")],
    "a negative size": lambda op: [frame(protocol.DONE, {"op": op, "size": -1})],
}


@pytest.mark.parametrize("lie", FILE_LIES)
async def test_a_lie_about_a_file_is_a_violation(impostor: Impostor, lie: str) -> None:
    """Reading a file of a hostile sandbox can't overrun us."""
    channel = await impostor.begin(frame(protocol.HELLO, HELLO))
    reading = asyncio.create_task(channel.files.read("file", ignore, limit=10))
    op = json.loads(await impostor.heard(protocol.READ))["op"]
    impostor.say(*FILE_LIES[lie](op))

    assert isinstance(await asyncio.wait_for(channel.wait_lost(), 5), ProtocolViolation)
    await asyncio.gather(reading, return_exceptions=True)


@pytest.mark.parametrize(
    "entries", [b"[", b"{}", json.dumps([{"name": 5, "type": "file"}]).encode(), b"[" * 100_000]
)
async def test_a_listing_that_is_none_is_a_violation(impostor: Impostor, entries: bytes) -> None:
    """Entries are checked like everything else."""
    channel = await impostor.begin(frame(protocol.HELLO, HELLO))
    listing = asyncio.create_task(channel.files.list("."))
    await impostor.heard(protocol.LIST)
    impostor.say(frame(protocol.DATA, entries))

    with pytest.raises(ProtocolViolation):
        await listing


async def test_requests_without_an_answer_end_the_channel(impostor: Impostor) -> None:
    """FREEZE has a deadline; so has an operation that was given up."""
    channel = await impostor.begin(frame(protocol.HELLO, HELLO))

    with pytest.raises(RunnerLost, match="no answer"):
        await channel.freeze()


async def test_a_reader_that_takes_nothing_ends_the_channel(impostor: Impostor) -> None:
    """A write stalls for so long, then the sandbox counts as lost."""
    channel = await impostor.begin(frame(protocol.HELLO, HELLO))

    async def much() -> AsyncIterator[bytes]:
        while True:
            yield bytes(65536)

    with pytest.raises(RunnerLost, match="took no data"):
        await channel.files.write("file", much())
