"""Files between a real runner's workspace and real object streams: whole or not at all, and stopped at any moment."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shared import limits, task
from shared.files import ObjectRef, Transfer
from shared.identity import make_key, roles
from shared.messages import Credential, PodSpec
from shared.objects import ObjectWriter, read
from shared.pools import PodLimits
from shared.task import Command, InputFile, ListFiles, Open, ReadFile
from shared.testing.names import unique
from shared.testing.plugin import Connect
from worker_agent.adapters import transfers
from worker_agent.adapters.objects import TenantObjects
from worker_agent.adapters.sandbox import RunnerSandbox
from worker_agent.core.results import RunEnd, judge
from worker_agent.pod import Pod, read_pod
from worker_agent.ports import RunOrder

MIB = 1 << 20
CONTENT = random.Random(1).randbytes(3 * MIB + 17)
UNKNOWN = ObjectRef(id="no-such-object", size_bytes=5, sha256="0" * 64, chunk_bytes=5)


class Bench:
    """A sandbox, the objects of a tenant, and what was told of transfers."""

    def __init__(self, sandbox: RunnerSandbox, objects: Any, workspace: Path) -> None:
        """Join them."""
        self.sandbox, self.objects, self.workspace = sandbox, objects, workspace
        self.moved: list[Transfer] = []

    async def do(self, asked: task.Task) -> RunEnd:
        """Do a task within the test's own bound."""

        async def on_started(_at_ms: float) -> None: ...

        async def on_output(_stream: str, _data: bytes) -> None: ...

        async def on_progress(transfer: Transfer) -> None:
            self.moved.append(transfer)

        order = RunOrder(
            task=asked,
            env={"AGENT_SANDBOX_TASK": "t"},
            timeout_s=asked.timeout_s,
            deadline_left_s=60.0,
            on_started=on_started,
            on_output=on_output,
            objects=self.objects,
            on_progress=on_progress,
        )
        async with asyncio.timeout(20):
            return await self.sandbox.run(order)


def make_pod(folder: Path, disk_mib: int) -> Pod:
    """Return a pod of a pool with so much disk."""
    spec = PodSpec(
        pod="p-0-1",
        pool="p",
        node="n",
        isolation="process",
        limits=PodLimits(disk_mib=disk_mib),
        credential=Credential(jwt="a.b.c", seed=make_key("user").seed),
        servers=(),
        settings={},
    )
    facts = {"isolation": "process", "workspace": str(folder)}
    return read_pod({**msgspec.to_builtins(spec), "sandbox": facts}, str(folder), 0, None)


@pytest.fixture
async def bench(runner: Any, connect: Connect) -> Bench:
    """A sandbox with 8 MiB of disk, and real objects."""
    bus = await connect(roles.worker("default", "w1"), name="w1")
    pod = make_pod(runner.workspace, disk_mib=8)
    objects = TenantObjects(bus, unique("t"), stall_s=10.0)
    return Bench(RunnerSandbox(runner.channel, pod), objects, runner.workspace)


async def stored(bench: Bench, content: bytes) -> ObjectRef:
    """Store content as a client does."""
    writer: ObjectWriter = bench.objects.writer()
    await writer.write(content)
    return await writer.close()


async def test_an_input_arrives_and_an_output_leaves(bench: Bench) -> None:
    """Byte for byte, with its mode, and with word of it."""
    reference = await stored(bench, CONTENT)
    given = InputFile(path="in/data", object=reference, mode=0o600)
    line = "stat -c %a in/data > mode; cat in/data in/data > out"
    end = await bench.do(Command(shell=line, files=(given,), outputs=("out", "mode")))

    assert end.exit_code == 0
    out, mode = end.outputs
    assert [out.path, mode.path] == ["out", "mode"]
    assert b"".join([c async for c in bench.objects.read(out.object)]) == CONTENT * 2
    assert b"".join([c async for c in bench.objects.read(mode.object)]) == b"600\n"
    ends = [moved for moved in bench.moved if moved.done_bytes == moved.total_bytes]
    assert [(m.path, m.direction, m.total_bytes) for m in ends] == [
        ("in/data", "in", len(CONTENT)),
        ("out", "out", 2 * len(CONTENT)),
        ("mode", "out", 4),
    ]


async def test_a_file_is_read_as_an_object(bench: Bench) -> None:
    """However large: the result holds its reference."""
    (bench.workspace / "big").write_bytes(CONTENT)
    end = await bench.do(ReadFile(path="big", as_object=True))

    assert (end.size, end.data) == (len(CONTENT), None)
    (output,) = end.outputs
    assert b"".join([c async for c in bench.objects.read(output.object)]) == CONTENT


async def test_progress_is_told_now_and_then(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Growing, never beyond the whole."""
    monkeypatch.setattr(transfers, "PROGRESS_S", 0.0)
    reference = await stored(bench, CONTENT)
    await bench.do(Open(files=(InputFile(path="in", object=reference),)))

    done = [moved.done_bytes for moved in bench.moved]
    assert len(done) > 3
    assert done == sorted(done)
    assert done[-1] == len(CONTENT)


async def test_a_fault_of_an_object_is_told_by_field_and_reason(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unknown, or not what its reference says: what was in the file's place stays, and the code does not run."""
    monkeypatch.setattr(read, "MISSING_S", 0.2)
    (bench.workspace / "in").write_text("as it was")
    reference = await stored(bench, CONTENT)
    wrong = msgspec.structs.replace(reference, sha256="0" * 64)
    good = InputFile(path="other", text="x")
    for bad, code, words in (
        (UNKNOWN, "not_found", "files[1].object: object no-such-object: chunk 0 of 1 is not there"),
        (wrong, "invalid_message", f"files[1].object: object {reference.id}: its sha256 is"),
    ):
        files = (good, InputFile(path="in", object=bad))
        end = await bench.do(Command(shell="touch ran", files=files))

        assert end.failure is not None
        assert end.failure.code == code
        assert end.failure.message.startswith(words)
        assert judge(end).reason == "file"
        assert (bench.workspace / "in").read_text() == "as it was"
        listed = await bench.do(ListFiles())  # after what was given up
        assert [entry.name for entry in listed.entries or ()] == ["in", "other"]


async def test_objects_beyond_the_pool_s_disk_are_refused_before_they_move(bench: Bench) -> None:
    """By their sizes together; the error names both."""
    size = 5 * MIB
    big = ObjectRef(id="never-read", size_bytes=size, sha256="0" * 64, chunk_bytes=65536)
    files = tuple(InputFile(path=name, object=big) for name in ("a", "b"))
    end = await bench.do(Open(files=files))

    assert end.failure is not None
    assert end.failure.code == "disk_full"
    assert (
        end.failure.message
        == f"files[1].object: {2 * size} bytes of objects, the pool's disk_mib is 8"
    )


async def test_an_output_that_is_missing_fails_only_what_went_well(bench: Bench) -> None:
    """What there is, is stored; after the code's own failure that failure is what counts."""
    well = await bench.do(Command(shell="echo a > a", outputs=("a", "b")))
    badly = await bench.do(Command(shell="exit 3", outputs=("b", "a")))

    assert well.failure is not None
    assert (well.failure.code, well.failure.definite) == ("not_found", False)
    assert well.failure.message.startswith("outputs[1]: b: ")
    assert [output.path for output in well.outputs] == ["a"]
    assert (badly.exit_code, badly.failure) == (3, None)
    assert [output.path for output in badly.outputs] == ["a"]


class Trickle:
    """Objects of which one chunk comes; the next one when it is let."""

    def __init__(self) -> None:
        """Let none."""
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()
        self.closed = asyncio.Event()

    async def read(self, reference: ObjectRef) -> AsyncGenerator[bytes, None]:
        """Yield half of it, and the other half later."""
        half = reference.size_bytes // 2
        try:
            yield bytes(half)
            self.asked.set()
            await self.go_on.wait()
            yield bytes(reference.size_bytes - half)
        finally:
            self.closed.set()


@pytest.fixture
def slow(bench: Bench) -> Trickle:
    """The bench's objects are slow."""
    trickle = bench.objects = Trickle()
    return trickle


HALVES = InputFile(
    path="in",
    object=ObjectRef(id="in-halves", size_bytes=MIB, sha256="0" * 64, chunk_bytes=MIB // 4),
)


async def test_a_cancel_ends_a_transfer_at_once(bench: Bench, slow: Trickle) -> None:
    """Half a file is no file, and the sandbox takes the next task."""
    running = asyncio.create_task(bench.do(Command(shell="touch ran", files=(HALVES,))))
    await slow.asked.wait()
    await bench.sandbox.stop("cancel")

    assert judge(await running).status == "cancelled"
    assert slow.closed.is_set()
    after = await bench.do(Command(shell="ls -A"))
    assert (after.exit_code, sorted(bench.workspace.iterdir())) == (0, [])


async def test_a_time_limit_ends_a_transfer(bench: Bench, slow: Trickle) -> None:
    """It counts from the attempt's begin."""
    end = await bench.do(Open(files=(HALVES,), timeout_s=0.2))

    assert end.stopped == "timeout"
    assert (await bench.do(ListFiles())).entries == ()


async def test_nothing_moves_while_the_sandbox_is_frozen(bench: Bench, slow: Trickle) -> None:
    """Whoever does not know whether it still owns the session writes nothing into it."""
    running = asyncio.create_task(bench.do(Open(files=(HALVES,))))
    await slow.asked.wait()
    await bench.sandbox.freeze()
    slow.go_on.set()
    await asyncio.sleep(0.2)  # as long as it takes where nothing holds it back, and longer

    assert not (bench.workspace / "in").exists()

    await bench.sandbox.thaw()
    assert (await running).failure is None
    assert (bench.workspace / "in").stat().st_size == MIB


async def test_a_full_disk_is_told_by_the_input_that_met_it(
    start: Any, small_disk: Path, connect: Connect
) -> None:
    """The kernel's word, under the field's name."""
    kit = await start(workspace=small_disk).connect()
    bus = await connect(roles.worker("default", "w2"), name="w2")
    pod = make_pod(small_disk, disk_mib=8)
    bench = Bench(
        RunnerSandbox(kit.channel, pod), TenantObjects(bus, "t", stall_s=10.0), small_disk
    )
    end = await bench.do(Open(files=(InputFile(path="in", object=await stored(bench, CONTENT)),)))

    assert end.failure is not None
    assert end.failure.code == "disk_full"
    assert end.failure.message.startswith("files[0].object: in: ")
    assert (await bench.do(ListFiles())).entries == ()
    await kit.channel.close()


async def test_a_file_beyond_an_object_is_refused(bench: Bench) -> None:
    """Sparse or not: its size is known before a byte moves."""
    with (bench.workspace / "huge").open("wb") as file:
        file.truncate(limits.OBJECT_BYTES_MAX + 1)
    end = await bench.do(ReadFile(path="huge", as_object=True))

    assert end.failure is not None
    assert end.failure.code == "too_large"
    assert end.failure.message.startswith("path: huge: 4294967297 bytes")
