"""`tti`: measured now, and as the gateways have seen it."""

from __future__ import annotations

import json
from collections.abc import Callable
from subprocess import CompletedProcess

import httpx
import msgspec

from agent_sandbox.cli.shapes import TtiMeasured, TtiSeen
from agent_sandbox.embedded.folder import Folder

Cli = Callable[..., CompletedProcess[str]]


def test_it_measures_sandbox_by_sandbox_and_sums_up_by_path(cli: Cli) -> None:
    """Each row has its parts; the figures are those of the rows."""
    done = cli("tti", "--pool", "cold", "-n", "3", "--pause", "0", "--json")
    assert done.returncode == 0, done.stderr
    said = msgspec.json.decode(done.stdout, type=TtiMeasured)

    values = [each.tti.tti_ms for each in said.tasks if each.tti is not None]
    assert len(values) == 3
    (row,) = said.rows
    assert (row.pool, row.path, row.count) == ("cold", "on-demand", 3)
    assert (row.last_ms, row.p50_ms, row.max_ms) == (values[-1], sorted(values)[1], max(values))

    table = cli("tti", "-n", "1")
    assert table.returncode == 0, table.stderr
    assert table.stdout.splitlines()[0].split() == ["task", "path", "ms", "queue", "claim", "start"]
    assert "p99" in table.stdout


def test_the_gateways_say_what_came_in_through_each(cli: Cli, embedded: Folder) -> None:
    """Nothing is measured for it; a server of NATS cannot be asked, and the error says who can."""
    first, *_ = embedded.read().gateways
    token = embedded.token_file.read_text().strip()
    created = httpx.post(
        f"{first}/v1/tasks",
        json={"kind": "command", "argv": ["true"]},
        headers={"authorization": f"Bearer {token}"},
        timeout=40,
    )
    assert created.status_code == 201, created.text
    done = cli("tti", "--stats", "--json")
    assert done.returncode == 0, done.stderr
    said = msgspec.json.decode(done.stdout, type=TtiSeen)

    assert [answer.gateway for answer in said.gateways] == ["gateway-1", "gateway-2"]
    last = [row.last_ms for row in said.gateways[0].pools if row.pool == "default"]
    assert created.json()["tti"]["tti_ms"] in last
    assert "gateway-2, last 10 min" in cli("tti", "--stats").stdout

    through = cli("tti", "-n", "2", "--json", "--server", first)
    assert through.returncode == 0, through.stderr
    measured = msgspec.json.decode(through.stdout, type=TtiMeasured)
    assert all(each.tti is not None for each in measured.tasks), "by its own clock, over HTTP too"

    asked = cli("tti", "--stats", "--json", "--server", "nats://127.0.0.1:1")
    assert asked.returncode == 125
    assert "gateways" in json.loads(asked.stdout)["error"]["message"]
