"""Services of an embedded cluster that hang, and what becomes of them: told, left alone, started anew."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from agent_sandbox.embedded.companions import process_of
from agent_sandbox.embedded.nurse import EVERY_S, HUNG_S
from agent_sandbox.embedded.probing import ASK_S, url_of
from agent_sandbox.embedded.procs import ProcessId
from agent_sandbox.embedded.table import read_table
from shared.testing.look import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
POOL = '[[pool]]\nname = "default"\nstock = 1\n'


async def test_a_service_that_hangs_is_told_and_started_anew(
    start_rough: Any, cli_on: Callable[..., Any]
) -> None:
    """Not at once: one that goes on within its time keeps its process. Its successor has other probes."""
    cluster = await start_rough(POOL)

    async def status() -> tuple[int, Any, str]:
        seen = await asyncio.to_thread(cli_on, "status", "--json", state=cluster.folder.path)
        text = await asyncio.to_thread(cli_on, "status", state=cluster.folder.path)
        return seen.returncode, json.loads(seen.stdout)["probes"], text.stdout

    code, probes, _ = await status()
    assert code == 0
    assert {probe["ready"] for probe in probes.values()} == {True}

    before = cluster.process("pool-manager-2")
    url = url_of(cluster.folder, "pool-manager-2")
    cluster.send("pool-manager-2", signal.SIGSTOP)
    code, probes, text = await status()
    assert code == 1
    assert [name for name, probe in probes.items() if not probe["ready"]] == ["pool-manager-2"]
    assert "not ready: no answer within" in text
    await asyncio.sleep(EVERY_S)
    cluster.send("pool-manager-2", signal.SIGCONT)

    async def is_well() -> bool:
        return (await status())[0] == 0

    await until(is_well, within_s=15)
    assert cluster.process("pool-manager-2") == before

    began = time.monotonic()
    cluster.send("pool-manager-2", signal.SIGSTOP)

    def is_another() -> bool:
        now = cluster.process("pool-manager-2")
        return now is not None and now != before

    await until(is_another, within_s=HUNG_S + 2 * (EVERY_S + ASK_S) + 5)
    took_s = time.monotonic() - began
    await until(is_well, within_s=20)
    targets = json.loads((cluster.folder.probes / "targets.json").read_text())
    assert took_s > HUNG_S
    assert url_of(cluster.folder, "pool-manager-2") != url
    assert {"checkpointer", "gateway", "local-node", "pool-manager", "client-edge"} == {
        target["labels"]["job"] for target in targets
    }


async def test_a_checkpointer_that_hangs_is_started_anew_by_its_node(start_rough: Any) -> None:
    """Nobody keeps it but its node, which does not look at what it says: the supervisor does."""
    cluster = await start_rough(POOL)

    def now() -> ProcessId | None:
        table = read_table(cluster.folder)
        assert table is not None
        return process_of(table.rows, "node-1-checkpointer")

    before = now()
    assert before is not None
    assert before.send(signal.SIGSTOP)
    await until(lambda: now() not in (None, before), within_s=HUNG_S + 2 * (EVERY_S + ASK_S) + 5)
    ready = cluster.folder.ready / "node-1-checkpointer"
    await until(ready.exists, within_s=20)

    assert not before.is_alive()
