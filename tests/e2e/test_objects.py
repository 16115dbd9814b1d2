"""Content over 256 KiB, by reference: in, out, along with tasks, and over the death of a worker, at bounded memory."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import json
import os
import random
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from agent_sandbox import Client, Progress, Session, TaskFailed
from agent_sandbox.demo.victims import find_worker
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.procs import ProcessId
from agent_sandbox.embedded.table import read_table
from shared import limits
from shared.errors import LimitExceeded, NotFound
from shared.files import ObjectRef
from shared.objects import read
from shared.task import Command, InputFile, WriteFile

MIB = 1 << 20
CONTENT_MIB = 48
GROWTH_MIB_MAX = 24
"""Of each process: half of the content, so that none can have held it."""

Finished = subprocess.CompletedProcess[str]
Cli = Callable[..., Finished]


def big_file(path: Path, size_mib: int) -> str:
    """Write random content; return its sha256."""
    digest, source = hashlib.sha256(), random.Random(size_mib)
    with path.open("wb") as file:
        for _ in range(size_mib):
            piece = source.randbytes(MIB)
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


def digest_of(path: Path) -> str:
    """Return a file's sha256."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Memory(NamedTuple):
    """A process's memory, MiB."""

    now: float
    peak: float
    """Since the last `forget_peak`."""


def memory_of(pid: int | str) -> Memory:
    """Read what the kernel counts."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    values = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Vm")}
    return Memory(int(values["VmRSS"]) / 1024, int(values["VmHWM"]) / 1024)


def forget_peak(pid: int | str) -> None:
    """Let the peak begin anew, where that is allowed."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")


async def worker_of(session: Session, folder: Folder) -> ProcessId:
    """Return the process of the session's worker."""
    record = (await session.show()).record
    table = read_table(folder)
    assert record is not None
    assert record.owner is not None
    assert table is not None
    process = find_worker(folder, record.owner, table.supervisor.pid)
    assert process is not None
    return process


async def runner_of(session: Session) -> int:
    """Return the pid of the session's runner: what its user code leaves behind becomes its child."""
    mark = f"300.{secrets.randbelow(10**9):09}"
    await session.exec(f"sleep {mark} > /dev/null 2>&1 &")
    return await asyncio.to_thread(parent_of, [b"sleep", mark.encode()])


def parent_of(words: list[bytes]) -> int:
    """Return the parent of the process that was started with these words."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # gone
                if (entry / "cmdline").read_bytes().split(b"\0")[:2] == words:
                    return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    raise AssertionError("what user code left behind is not there")


@pytest.fixture
async def session(client: Client) -> AsyncIterator[Session]:
    """A session that ends with the test."""
    async with await client.create_session() as opened:
        yield opened


async def test_a_large_file_goes_in_and_out_at_bounded_memory(
    session: Session, embedded: Folder, tmp_path: Path
) -> None:
    """Byte for byte; neither client nor worker nor runner ever hold it; progress grows to the whole."""
    local, back = tmp_path / "local", tmp_path / "back"
    digest = await asyncio.to_thread(big_file, local, CONTENT_MIB)
    size = CONTENT_MIB * MIB
    pids = ["self", (await worker_of(session, embedded)).pid, await runner_of(session)]
    for pid in pids:
        forget_peak(pid)
    before = [memory_of(pid).now for pid in pids]
    told: dict[str, list[int]] = {"up": [], "down": []}

    await session.upload(local, "in/big", on_progress=lambda done, _: told["up"].append(done))
    inside = await session.exec("sha256sum in/big; mv in/big out")
    await session.download("out", back, on_progress=lambda done, _: told["down"].append(done))

    grown = [memory_of(pid).peak - at for pid, at in zip(pids, before, strict=True)]
    assert inside.stdout.split()[0] == digest
    assert await asyncio.to_thread(digest_of, back) == digest
    for done in told.values():
        assert len(done) > 10
        assert done == sorted(done)
        assert done[-1] == size
    assert max(grown) < GROWTH_MIB_MAX, dict(
        zip(["client", "worker", "runner"], grown, strict=True)
    )


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not there is believed at once."""
    monkeypatch.setattr(read, "MISSING_S", 0.3)


@pytest.mark.usefixtures("impatient")
async def test_large_files_of_a_task_go_by_reference_by_themselves(client: Client) -> None:
    """Whoever calls need not know; what was made for the task is dropped when its result is there."""
    content = random.Random(1).randbytes(MIB)
    async with client.objects.carried({"files": {"small": "small", "large": content}}) as carried:
        task = await client.start(shell="cat small; sha256sum large", **carried)
    result = (await task.result()).check()
    reference = carried["files"]["large"].object

    assert carried["files"]["small"] == "small"
    assert carried["made"].ids == [], "it is dropped"
    assert result.stdout.split() == [f"small{hashlib.sha256(content).hexdigest()}", "large"]
    with pytest.raises(NotFound):
        await client.objects.get(reference, io.BytesIO())


@pytest.mark.usefixtures("impatient")
async def test_a_result_names_the_outputs_that_were_asked_for(client: Client) -> None:
    """A one-shot's files outlive its sandbox."""
    result = await client.run(shell="head -c 3000000 /dev/zero > a; echo b > b", outputs=["a", "b"])
    read_back = io.BytesIO()
    await client.objects.get(result.check().outputs["b"], read_back)

    assert read_back.getvalue() == b"b\n"
    assert result.outputs["a"].size_bytes == 3_000_000
    await client.objects.drop(*(reference.id for reference in result.outputs.values()))
    with pytest.raises(NotFound):
        await client.objects.get(result.outputs["b"], io.BytesIO())


async def test_a_missing_output_fails_the_task_by_its_field(client: Client) -> None:
    """It ran, and what was asked for is not there."""
    result = await client.run(shell="true", outputs=["gone"])

    assert (result.status, result.reason, result.exit_code) == ("failed", "file", 0)
    assert result.raw.error is not None
    assert result.raw.error.message.startswith("outputs[0]: gone: ")


async def test_a_reference_to_nothing_ends_in_a_result(client: Client) -> None:
    """Named by field and reason; another tenant's object is nothing, too."""

    nothing = ObjectRef(id="no-such-object", size_bytes=1, sha256="0" * 64, chunk_bytes=1)
    task = await client.publish(
        Command(shell="true", files=(InputFile(path="in", object=nothing),)), {}
    )
    with pytest.raises(TaskFailed, match=r"files\[0\].object: object no-such-object: chunk 0 of 1"):
        (await task.result()).check()


@pytest.fixture
async def two_inputs(client: Client) -> AsyncIterator[tuple[InputFile, InputFile]]:
    """A tiny input, whose arrival says that the large one behind it is on its way."""
    contents = (b"tiny", random.Random(2).randbytes(48 * MIB))
    references = [await client.objects.put(content) for content in contents]
    tiny, large = (InputFile(path=r.sha256, object=r) for r in references)
    yield tiny, large
    await client.objects.drop(*(reference.id for reference in references))


async def test_a_transfer_survives_its_worker(
    session: Session, embedded: Folder, client: Client, two_inputs: tuple[InputFile, InputFile]
) -> None:
    """Killed in mid-transfer: the next attempt begins it anew, on a fresh worker, and ends it."""
    victim = await worker_of(session, embedded)
    killed: list[int] = []
    task = await client.publish_next(session.id, WriteFile(files=two_inputs), {})
    async for event in task.events():
        if isinstance(event, Progress) and not killed:
            killed.append(victim.pid)
            os.kill(victim.pid, signal.SIGKILL)
    result = (await task.result()).check()
    inside = await session.exec(["sha256sum", two_inputs[1].path])

    assert len(result.raw.interruptions) == 1
    assert inside.stdout.split() == [two_inputs[1].path] * 2


async def test_a_cancel_ends_a_transfer_at_once(
    session: Session, client: Client, two_inputs: tuple[InputFile, InputFile]
) -> None:
    """Half a file is no file; the session goes on."""
    task = await client.publish_next(session.id, WriteFile(files=two_inputs), {})
    async for event in task.events():
        if isinstance(event, Progress):
            await task.cancel()
    listed = await session.list()

    assert (await task.result()).status == "cancelled"
    assert [entry.name for entry in listed] == [two_inputs[0].path]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_half_a_gibibyte_goes_both_ways_at_bounded_memory() -> None:
    """The benchmark's own bounds, on a cluster of its own; by default it carries 2 GiB."""
    program = Path(__file__).parents[2] / "benchmarks" / "objects.py"
    done = subprocess.run(
        [sys.executable, program, "--gib", "0.5"],
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["ok"] is True


# --- the command line ------------------------------------------------------------------------------------------------
def test_files_are_put_and_got(cli: Cli, tmp_path: Path) -> None:
    """By name, and through pipes."""
    local, back = tmp_path / "local.bin", tmp_path / "back.bin"
    digest = big_file(local, 3)
    session = cli("session", "create").stdout.strip()

    put = cli("session", "put", session, str(local))
    got = cli("session", "get", session, "local.bin", str(back))
    piped = cli("session", "put", session, "-", "piped", stdin="through a pipe\n")
    out = cli("session", "get", session, "piped", "-")
    missing = cli("session", "get", session, "missing", str(back))
    cli("session", "close", session)

    assert (put.stdout, put.returncode) == ("local.bin\n", 0)
    assert (got.stdout, got.returncode) == (f"{back}\n", 0)
    assert digest_of(back) == digest
    assert (piped.stdout, piped.returncode) == ("piped\n", 0)
    assert (out.stdout, out.stderr) == ("through a pipe\n", "")
    assert missing.returncode == 125
    assert missing.stderr.startswith("agent-sandbox: task_failed: ")
    assert digest_of(back) == digest


async def test_a_file_that_is_too_large_is_refused_before_any_of_it_is_stored(
    client: Client, tmp_path: Path
) -> None:
    """Its size is known: nobody has to send 4 GiB to hear of the bound."""
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(limits.OBJECT_BYTES_MAX + 1)
    told: list[int] = []

    async with asyncio.timeout(15):
        with pytest.raises(LimitExceeded, match="OBJECT_BYTES_MAX") as refused:
            await client.objects.put(large, on_progress=lambda done, _total: told.append(done))

    assert refused.value.definite
    assert told == []
