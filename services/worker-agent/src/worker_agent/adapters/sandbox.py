"""The confined half of the pod: tasks become orders to the runner, and what comes back becomes how a run ended."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress

import msgspec

from shared import limits, task
from shared.errors import ErrorInfo
from shared.files import OutputFile
from shared.messages import Interpreter
from worker_agent.adapters import kernel
from worker_agent.adapters.runner import (
    FileFailed,
    Run,
    RunnerChannel,
    RunnerLost,
    Watch,
)
from worker_agent.adapters.runner_orders import end_of, run_of
from worker_agent.adapters.standstill import Standstill
from worker_agent.adapters.transfers import Stopped, Transfers
from worker_agent.adapters.usage import Usage
from worker_agent.core.listing import fit
from worker_agent.core.results import RunEnd, StopCause
from worker_agent.pod import Pod
from worker_agent.ports import RunOrder

GRACE_S = 1.0
"""Between the polite end of user code (SIGINT) and the forced one."""

_NOT_STOPPED: tuple[StopCause | None, str] = (None, "")


class RunnerSandbox:
    """Implements `ports.Sandbox` over the runner's channel."""

    def __init__(self, channel: RunnerChannel, pod: Pod) -> None:
        """Use `open`."""
        self._channel = channel
        self._pod = pod
        self._transfers = Transfers(channel.files)
        self._stopped = _NOT_STOPPED
        self._still = Standstill(channel, self._transfers)
        self._usage = Usage(pod.sandbox, pod.spec.limits)
        self._doing: asyncio.Task[RunEnd] | None = None
        self._opened: Interpreter | None = None
        """The interpreter that an `open` has used and no code of the user's."""

    @classmethod
    async def open(cls, channel_fd: int, pod: Pod) -> RunnerSandbox:
        """Take the channel over.

        Raises:
            RunnerLost: the runner does not say hello.
        """
        return cls(await RunnerChannel.open(channel_fd), pod)

    @property
    def lost(self) -> bool:
        """Whether the sandbox is gone."""
        return self._channel.lost is not None

    async def wait_lost(self) -> None:
        """Return when the sandbox is gone."""
        await self._channel.wait_lost()

    @property
    def changed_bytes(self) -> int | None:
        """See `ports.Sandbox`."""
        return self._usage.changed_bytes

    def count_changes(self, since_ms: int) -> None:
        """See `ports.Sandbox`."""
        self._usage.count_changes(since_ms)

    def prepare(self, *, python: bool) -> None:
        """Expect a task soon: come to the foreground; if it is a `python` task, fork its interpreter ahead."""
        kernel.come_to_foreground(self._pod.sandbox.pid, self._pod.sandbox.niceness)
        if python:
            self._channel.prepare_python()

    async def run(self, order: RunOrder) -> RunEnd:
        """Do what a task asks, within its time and the sandbox's limits; return how it ended."""
        self._stopped = _NOT_STOPPED
        self._transfers.begin()
        facts = self._pod.sandbox
        kills_before = kernel.oom_kills(facts.memory_cgroup)
        watching = asyncio.ensure_future(self._watch(order))
        self._doing = asyncio.ensure_future(self._do(order))
        try:
            await asyncio.wait({self._doing, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not self._doing.done():
                watching.result()  # if it failed, nothing would end this run: better the whole worker
                await asyncio.wait({self._doing})
            end = self._doing.result()
        finally:
            watching.cancel()
            self._doing.cancel()
            self._doing = None
        cause, limit = self._stopped
        return msgspec.structs.replace(
            end,
            stopped=cause,
            limit=limit,
            oom=end.oom or kernel.oom_kills(facts.memory_cgroup) > kills_before,
        )

    async def stop(self, cause: StopCause, limit: str = "") -> None:
        """End the user code that runs now, if any: politely for a cancel or a time limit, at once for a passed limit."""
        if self._doing is None or self._stopped != _NOT_STOPPED:
            return
        self._stopped = (cause, limit)
        self._transfers.stop()
        if cause == "limit":
            self.kill()
        else:
            self._channel.stop(GRACE_S)

    @property
    def room_bytes(self) -> int:
        """Bytes that the running task's terminal takes now; 0 where it has none, or is frozen."""
        return 0 if self._still.wanted or self._doing is None else self._channel.terminal.room_bytes

    def type(self, data: bytes) -> None:
        """Type into the terminal of the task that runs."""
        self._channel.terminal.type(data)

    def resize(self, rows: int, cols: int) -> None:
        """Give it another size."""
        self._channel.terminal.resize(rows, cols)

    def hang_up(self) -> None:
        """Say that nobody sits before it any more: SIGHUP, which would let a frozen program go on."""
        if not self._still.wanted:
            self._channel.hang_up()

    async def freeze(self) -> None:
        """Stop user code without ending it, and what moves between object store and workspace."""
        await self._still.begin()

    async def thaw(self) -> None:
        """Let user code and transfers go on, unless somebody else has frozen them, too."""
        await self._still.end()

    def lease(self, until_ns: int) -> None:
        """Let user code run until a moment by `CLOCK_BOOTTIME`, nanoseconds."""
        self._channel.lease(until_ns)

    async def close(self) -> None:
        """End the sandbox."""
        kernel.go_to_background(self._pod.sandbox.pid)
        await self._channel.close()

    def kill(self) -> None:
        """Kill the sandbox from outside: what passed a limit may not let its runner run any more."""
        if (
            self._pod.sandbox.in_container
        ):  # no signal reaches it; who does not obey ends with the pod
            return self._channel.cut("it passed a limit")
        assert self._pod.sandbox.pid > 1, "0 and 1 mean others than the sandbox"
        for pid in kernel.process_tree(self._pod.sandbox.pid):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        return None

    async def _do(self, order: RunOrder) -> RunEnd:
        try:
            await self._transfers.fetch(order, self._pod.spec.limits.disk_mib)
            if order.task.files:
                order.restored_ms = time.time() * 1000
            return await self._with_outputs(order, await self._act(order))
        except Stopped:
            return RunEnd()
        except FileFailed as exc:
            return RunEnd(failure=exc.info())
        except RunnerLost:
            return RunEnd(lost=True)
        except ValueError as exc:
            return RunEnd(failure=ErrorInfo(code="exec_too_long", message=str(exc)))

    async def _act(self, order: RunOrder) -> RunEnd:
        match order.task:
            case task.Command() | task.Python():
                return self._told_why(await self._execute(order, run_of(order)))
            case task.Open():
                return await self._open(order)
            case task.ReadFile(path=path, as_object=True):
                output = await self._transfers.store(order, path, "path")
                return RunEnd(outputs=(output,), size=output.object.size_bytes)
            case task.ReadFile(path=path, offset=offset, limit=limit):
                pieces: list[bytes] = []

                async def keep(piece: bytes) -> None:
                    pieces.append(piece)

                done = await self._channel.files.read(path, keep, offset=offset, limit=limit)
                return RunEnd(data=b"".join(pieces), size=done.size)
            case task.ListFiles(path=path):
                listing = await self._channel.files.list(path, limit=limits.LIST_ENTRIES_MAX)
                entries, cut = fit(listing.entries)
                return RunEnd(entries=entries, truncated=listing.truncated or cut)
            case task.RemoveFile(path=path, recursive=recursive):
                await self._channel.files.remove(path, recursive=recursive)
            case task.Archive(path=path):
                output = await self._transfers.archive(order, path)
                return RunEnd(outputs=(output,), size=output.object.size_bytes)
            case task.Extract():
                await self._transfers.extract(order, self._pod.spec.limits.disk_mib)
        return RunEnd()  # of a write, a close: their files are written already

    async def _execute(self, order: RunOrder, run: Run) -> RunEnd:
        await self._channel.ready()
        if self._stopped != _NOT_STOPPED:
            return RunEnd()  # while its files were written, or while the sandbox was frozen
        return end_of(await self._channel.run(run, self._told(order)))

    async def _open(self, order: RunOrder) -> RunEnd:
        """Run nothing in the session's interpreter: that it can, and how soon, is what the creation's time says."""
        name = order.env["AGENT_SANDBOX_TASK"]
        end = await self._execute(order, Run(task=name, kind="python", code="pass", env=order.env))
        self._opened = end.interpreter
        return msgspec.structs.replace(end, interpreter=None)

    def _told_why(self, end: RunEnd) -> RunEnd:
        """Say with the first code of the user's why its interpreter is fresh, though an `open` has used it."""
        used, opened = end.interpreter, self._opened
        if used is None or opened is None:
            return end
        self._opened = None
        return (
            end
            if used.generation != opened.generation
            else msgspec.structs.replace(end, interpreter=opened)
        )

    async def _with_outputs(self, order: RunOrder, end: RunEnd) -> RunEnd:
        """Store the files that the task names, once its code has ended by itself."""
        if end.failure is not None or end.signal is not None or end.lost:
            return end
        well = end.exit_code in (0, None)
        stored: list[OutputFile] = list(end.outputs)
        failure: ErrorInfo | None = None
        for index, path in enumerate(order.task.outputs):
            try:
                stored.append(await self._transfers.store(order, path, f"outputs[{index}]"))
            except Stopped:
                break
            except FileFailed as exc:
                if well:  # else its own failure is what counts
                    failure = msgspec.structs.replace(exc.info(), definite=False)
                    break
        return msgspec.structs.replace(end, outputs=tuple(stored), failure=failure)

    def _told(self, order: RunOrder) -> Watch:
        async def started(at_ns: int) -> None:
            await order.on_started(at_ns / 1e6)

        return Watch(started, order.on_output)

    async def _watch(self, order: RunOrder) -> None:
        """End the run at its time limit, or when the sandbox passes a limit that the kernel does not hold."""
        timeout_s, deadline_s = order.timeout_s, order.deadline_left_s
        try:
            passed = await asyncio.wait_for(
                self._usage.wait_passed(), max(0.0, min(timeout_s, deadline_s))
            )
        except TimeoutError:
            await self.stop("timeout" if timeout_s <= deadline_s else "deadline")
        else:
            await self.stop("limit", passed)
