"""The process that a node keeps beside its pods: its checkpointer, which ends with it, however it ends."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import time
from collections.abc import Callable, Sequence

from shared import logs

log = logs.get(__name__)

PAUSE_FIRST_S = 0.1
PAUSE_MAX_S = 5.0
STEADY_S = 20.0
"""After running for so long, its next death is its first again."""
GRACE_S = 2.0
"""From SIGTERM to SIGKILL: it is ended after the pods, when nobody has anything left to save."""
KILL_S = 5.0
_PR_SET_PDEATHSIG = 1


class Companion:
    """Keeps one process alive; it inherits this one's environment and output."""

    def __init__(self, command: Sequence[str]) -> None:
        """Describe it; `keep` starts it."""
        self._command = tuple(command)
        self._process: asyncio.subprocess.Process | None = None
        self._leaving = asyncio.Event()
        self.deaths = 0
        """Of all time."""

    async def keep(self) -> None:
        """Run it until `stop`, starting it again whenever it ends, after a pause that grows while it dies at once.

        Must run on the main thread: the kernel ends it when the *thread* that started it ends.
        """
        deaths = 0
        while not self._leaving.is_set():
            began = time.monotonic()
            how = await self._run_once()
            if self._leaving.is_set():
                return
            self.deaths += 1
            deaths = 1 if time.monotonic() - began > STEADY_S else deaths + 1
            pause_s = min(PAUSE_FIRST_S * 2 ** (deaths - 1), PAUSE_MAX_S)
            log.warning("companion.died", command=self._command, how=how, pause_s=pause_s)
            try:
                async with asyncio.timeout(pause_s):
                    await self._leaving.wait()
            except TimeoutError:
                continue

    async def stop(self) -> None:
        """End it: SIGTERM, SIGKILL after its grace; returns when it is gone."""
        self._leaving.set()
        process = self._process
        if process is None or process.returncode is not None:
            return
        for number, patience_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, KILL_S)):
            process.send_signal(number)
            try:
                async with asyncio.timeout(patience_s):
                    await process.wait()
                    return
            except TimeoutError:
                log.warning("companion.late", signal=number.name, after_s=patience_s)

    async def _run_once(self) -> str:
        """Start it and wait for its end; return how it ended, in words."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                preexec_fn=_die_with_parent(),
            )
        except OSError as exc:
            return f"cannot start: {exc}"
        if self._leaving.is_set():
            await self.stop()  # asked while it was being started
        code = await self._process.wait()
        return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


def _die_with_parent() -> Callable[[], None]:
    """Return what the child calls before its exec, so that the kernel kills it when its parent dies."""
    parent = os.getpid()
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def arm() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:  # the parent died before the kernel knew
            os._exit(1)

    return arm
