"""A stand-in for a NATS server: as much of the protocol as one worker needs to play one task through."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from shared import headers, subjects

_INFO = (
    b'INFO {"server_id":"R","server_name":"r","version":"2.15.1","headers":true,"max_payload":1048576,'
    b'"auth_required":true,"nonce":"cmVoZWFyc2Fs","proto":1,"jetstream":true}\r\n'
)
_PUB_ACK = b'{"stream":"0","seq":1}'


class StandInServer:
    """Confirms everything, rings one bell, and hands out one task as often as it is pulled."""

    def __init__(self, pool: str, task: bytes) -> None:
        """Hand out `task` (a body) in the interactive lane of `pool`."""
        self._lane = subjects.queue(0, "rehearsal", pool, "interactive")
        self._bell = subjects.bell(pool, "interactive", 0)
        self._task = task

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speak with one client until it leaves."""
        sids: dict[str, str] = {}
        writer.write(_INFO)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while line := await reader.readline():
                operation, *words = line.decode().split()
                match operation:
                    case "PING":
                        writer.write(b"PONG\r\n")
                    case "SUB":
                        sids[words[0]] = words[-1]
                        if words[0] == subjects.bells(self._bell.split(".")[1]):
                            writer.write(f"MSG {self._bell} {words[-1]} 0\r\n\r\n".encode())
                    case "PUB" | "HPUB":
                        await reader.readexactly(int(words[-1]) + 2)
                        if len(words) > (2 if operation == "PUB" else 3):
                            writer.write(self._answer(words[0], words[1], sids))
        writer.close()

    def _answer(self, subject: str, reply: str, sids: dict[str, str]) -> bytes:
        wildcard = reply.rpartition(".")[0] + ".*"
        sid = sids.get(reply) or sids.get(wildcard, "0")
        if "CONSUMER.MSG.NEXT" not in subject:
            return f"MSG {reply} {sid} {len(_PUB_ACK)}\r\n".encode() + _PUB_ACK + b"\r\n"
        block = f"NATS/1.0\r\n{headers.MESSAGE_ID}: rehearsal-0001\r\n\r\n".encode()
        ack = f"$JS.ACK.Q0.c.1.1.1.{time.time_ns()}.0"
        size = len(block) + len(self._task)
        return (
            f"HMSG {self._lane} {sid} {ack} {len(block)} {size}\r\n".encode()
            + block
            + self._task
            + b"\r\n"
        )
