"""The examples of docs/sdk.md, as they stand there."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from agent_sandbox import Client
from agent_sandbox.embedded.folder import Folder
from shared.testing.look import until

PAGE = Path(__file__).parents[3] / "docs" / "sdk.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
SAID = (("42\n", "[['a', 'b'], ['1', '2']]", "data=b'3\\n'"), ("'0', '1', '2'", "task_failed 3"))


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("by", ["state", "gateways"])
async def test_an_example_runs_as_it_stands(number: int, by: str, embedded: Folder) -> None:
    """On the cluster of the state folder, and by environment variables through its gateways."""
    there: dict[str, Any] = {"AGENT_SANDBOX_STATE": str(embedded.path)}
    if by == "gateways":
        there = {
            "AGENT_SANDBOX_SERVERS": ",".join(embedded.read().gateways),
            "AGENT_SANDBOX_TOKEN_FILE": str(embedded.token_file),
        }
    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-W", "error", "-c", BLOCKS[number]],
        env={**os.environ, **there},
        capture_output=True,
        text=True,
        timeout=50,
    )

    assert ran.returncode == 0, ran.stderr
    assert [word for word in SAID[number] if word not in ran.stdout] == []


INTERRUPTED = """
import sys
from agent_sandbox import SyncClient
with SyncClient() as client, client.create_session() as session:
    print(session.id, flush=True)
    session.exec("sleep 60", task_id=sys.argv[1])
"""


async def test_an_interrupt_ends_program_task_and_session(embedded: Folder, client: Client) -> None:
    """As a person presses `^C`: soon, with Python's own exit, and nothing runs on."""
    task_id = str(uuid.uuid4())
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        INTERRUPTED,
        task_id,
        env={**os.environ, "AGENT_SANDBOX_STATE": str(embedded.path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert program.stdout is not None
    session_id = (await program.stdout.readline()).decode().strip()
    session = client.session(session_id)

    async def runs() -> bool:
        return (await session.show()).task == task_id

    await until(runs, within_s=20)
    program.send_signal(signal.SIGINT)
    _, said = await asyncio.wait_for(program.communicate(), 20)
    result = await client.read_result(task_id, session_id=session_id)

    assert program.returncode == -signal.SIGINT
    assert said.decode().rstrip().endswith("KeyboardInterrupt")
    assert result is not None
    assert result.status == "cancelled"

    async def is_closed() -> bool:
        record = (await session.show()).record
        return record is not None and record.state == "closed"

    await until(is_closed, within_s=10)
