"""The wall: eight sessions in one process. One is busy, then curious, then hungry; what becomes of the other seven?"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import sys
from pathlib import Path

import payloads
from drive import PODS_SECRET, drive

from labs.cluster import fresh_folder
from labs.frame import Figures, Say, side

SERVER = Path(__file__).with_name("server.py")
LOOK_EVERY_S = 0.01
ANSWER_S = 180.0


class OnePod:
    """The process with all sessions in it, and what a kubelet does: bound its memory, start it again."""

    def __init__(self, secret: Path) -> None:
        """Mount a secret."""
        self.secret = str(secret)
        self._ids = itertools.count()
        self._waiting: dict[int, asyncio.Future[str]] = {}

    async def start(self) -> None:
        """Start the process."""
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(SERVER),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "MODEL_KEY": PODS_SECRET},
        )
        self._tasks = [asyncio.create_task(self._hear()), asyncio.create_task(self._bound_memory())]

    async def run(self, session: int, code: str) -> str | None:
        """Run a session's task; return what it printed, None: its process died."""
        number = next(self._ids)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        order = {"id": number, "session": session, "code": code}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        async with asyncio.timeout(ANSWER_S):
            return await self._waiting[number] or None

    async def end(self) -> None:
        """End the process."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        for task in self._tasks:
            task.cancel()

    async def restart(self) -> None:
        """Start it again after its death."""
        await self.end()
        await self.start()

    async def _hear(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            answer = json.loads(line)
            self._waiting.pop(answer["id"]).set_result(answer.get("stdout", ""))
        for waiting in self._waiting.values():  # it died with them
            waiting.set_result("")
        self._waiting.clear()

    async def _bound_memory(self) -> None:
        """Kill the process at its limit, as the kernel does to a container: not everybody may make a control group."""
        status = Path(f"/proc/{self._process.pid}/status")
        with contextlib.suppress(OSError):  # gone between two looks
            while self._process.returncode is None:
                lines = status.read_text().splitlines()  # noqa: ASYNC240 - no disk behind it
                held = next((one for one in lines if one.startswith("VmRSS:")), "VmRSS: 0")
                if int(held.split()[1]) > payloads.MEMORY_MIB * 1024:
                    self._process.kill()
                await asyncio.sleep(LOOK_EVERY_S)


async def measure(say: Say) -> Figures:
    """Let all eight work in one pod."""
    with fresh_folder() as folder:
        secret = folder / "model-key"
        secret.write_text(PODS_SECRET)
        secret.chmod(0o644)
        pod = OnePod(secret)
        await pod.start()
        try:
            return await drive(pod, say)
        finally:
            await pod.end()


if __name__ == "__main__":
    side(measure)
