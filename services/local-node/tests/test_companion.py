"""The process that a node keeps beside it: started again when it dies, ended with the node, however that ends."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from drill import is_there, until

from local_node.adapters import companion as companions
from local_node.adapters.companion import Companion

TELL = "import os, sys, time; open(sys.argv[1], 'a').write(f'{os.getpid()}\\n'); time.sleep(600)"
"""Appends its pid to a file and stays."""
NODE = """
import asyncio, sys
from local_node.adapters.companion import Companion
asyncio.run(Companion(sys.argv[1:]).keep())
"""


def _pids(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


async def test_a_companion_that_dies_is_started_again_and_ends_when_asked(tmp_path: Path) -> None:
    """Killed by anybody, it has a successor; after `stop` there is none."""
    told = tmp_path / "pids"
    companion = Companion((sys.executable, "-c", TELL, str(told)))
    keeping = asyncio.create_task(companion.keep())
    assert await until(lambda: len(_pids(told)) == 1)
    os.kill(_pids(told)[0], signal.SIGKILL)
    assert await until(lambda: len(_pids(told)) == 2)
    first, second = _pids(told)

    await companion.stop()
    await keeping

    assert companion.deaths == 1
    assert not is_there(first)
    assert not is_there(second)


async def test_a_companion_that_can_not_start_does_not_end_its_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is tried again, ever more slowly; `stop` waits for none of that."""
    companion = Companion(("/nonexistent/checkpointer",))
    keeping = asyncio.create_task(companion.keep())
    assert await until(lambda: companion.deaths >= 2)
    monkeypatch.setattr(companions, "PAUSE_FIRST_S", 600.0)
    monkeypatch.setattr(companions, "PAUSE_MAX_S", 600.0)
    assert await until(lambda: companion.deaths >= 3)

    await companion.stop()
    async with asyncio.timeout(10):
        await keeping


async def test_a_companion_dies_with_its_node(tmp_path: Path) -> None:
    """SIGKILL to the node leaves it no time to end anything: the kernel does."""
    told = tmp_path / "pids"
    node = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", NODE, sys.executable, "-c", TELL, str(told)),
        env={
            "PATH": os.defpath,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        },
    )
    try:
        assert await until(lambda: len(_pids(told)) == 1)
    finally:
        node.kill()
        await node.wait()
    try:
        assert await until(lambda: not is_there(_pids(told)[0]))
    finally:
        for pid in _pids(told):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
