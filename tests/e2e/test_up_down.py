"""The embedded cluster's life: up, found again, killed, restarted, changed, down; and what stands in its way."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.procs import ProcessId, descendants, wait_gone
from agent_sandbox.embedded.table import read_table
from shared.cluster import open_layout

pytestmark = pytest.mark.timeout(150)

Finished = subprocess.CompletedProcess[str]
CliOn = Callable[..., Finished]
POOL = '[[pool]]\nname = "default"\nstock = 2\n'


@pytest.fixture
def folder(place: Path, tmp_path: Path, cli_on: CliOn) -> Iterator[Folder]:
    """A state folder of this test's own; whatever runs for it is ended."""
    folder = Folder(place / tmp_path.name)
    yield folder
    if folder.exists():
        cli_on("down", state=folder.path)


@pytest.fixture
def pools(tmp_path: Path) -> Path:
    """A file with one small pool."""
    path = tmp_path / "pools.toml"
    path.write_text(POOL)
    return path


def processes_of(folder: Folder) -> list[ProcessId]:
    """Return all processes of the running cluster, user code among them."""
    table = read_table(folder)
    assert table is not None
    return [table.supervisor, *descendants(table.supervisor.pid)]


def row_of(folder: Folder, name: str) -> Any:
    """Return what the supervisor says about one process."""
    table = read_table(folder)
    assert table is not None
    return next(row for row in table.rows if row.name == name)


def test_a_cluster_lives_through_everything(folder: Folder, pools: Path, cli_on: CliOn) -> None:
    """Up, found, a service killed, the supervisor killed, up again with its data, changed, down: one way through."""
    up = cli_on("up", "--pools", str(pools), "--json", state=folder.path, timeout_s=120)
    assert up.returncode == 0, up.stderr
    assert json.loads(up.stdout)["did"] == "started"
    session = cli_on("session", "create", state=folder.path).stdout.strip()
    cli_on("session", "exec", session, "--", "sh", "-c", "setsid sleep 300 &", state=folder.path)

    again = cli_on("up", "--json", state=folder.path)
    assert json.loads(again.stdout)["did"] == "found"

    _a_killed_service_comes_back(folder)

    everything = processes_of(folder)
    everything[0].send(signal.SIGKILL)
    assert wait_gone(everything, 10) == []
    assert "crashed" in cli_on("status", state=folder.path).stdout

    back = cli_on("up", "--json", state=folder.path, timeout_s=120)
    assert back.returncode == 0, back.stderr
    assert json.loads(back.stdout)["did"] == "started"
    assert session in cli_on("session", "list", state=folder.path).stdout

    pools.write_text(POOL + '[[pool]]\nname = "extra"\nstock = 1\n')
    changed = cli_on("up", "--pools", str(pools), "--json", state=folder.path, timeout_s=60)
    assert json.loads(changed.stdout)["did"] == "applied", changed.stderr
    pools.write_text(POOL + 'isolation = "kata"\n')
    refused = cli_on("up", "--pools", str(pools), state=folder.path)
    assert refused.returncode == 125
    assert "not_applied: no usable isolation for pool 'default'" in refused.stderr
    assert "extra" in folder.pools_file.read_text()
    used = cli_on("run", "--pool", "extra", "--", "echo", "new", state=folder.path)
    assert used.stdout == "new\n", used.stderr

    everything = processes_of(folder)
    down = cli_on("down", state=folder.path)
    assert down.returncode == 0, down.stderr
    assert [process for process in everything if process.is_alive()] == []
    assert cli_on("down", state=folder.path).stdout == "nothing ran\n"


def _a_killed_service_comes_back(folder: Folder) -> None:
    """The supervisor starts what dies again, and says so."""
    before = row_of(folder, "pool-manager-2")
    before.process.send(signal.SIGKILL)
    until = time.monotonic() + 20
    while time.monotonic() < until:
        after = row_of(folder, "pool-manager-2")
        if after.restarts > before.restarts and after.state == "running":
            break
        time.sleep(0.05)
    assert (after.restarts, after.last_exit) == (1, "killed by SIGKILL")
    assert after.process.is_alive()


def test_status_says_what_runs_and_fits_the_terminal(embedded: Folder, cli_on: CliOn) -> None:
    """Servers with leaders, managers, nodes with isolation, pools with stock; no line wider than asked."""
    seen = cli_on("status", "--json", state=embedded.path)
    text = cli_on("status", state=embedded.path).stdout
    view = json.loads(seen.stdout)

    assert seen.returncode == 0, text
    assert view["phase"] == "ready"
    assert [row["name"] for row in view["processes"]][:3] == ["n1", "n2", "n3"]
    assert sum(server["leads"] for server in view["servers"]) >= 12
    assert {pool["pool"]: pool["stock"] for pool in view["pools"]["pools"]} == {
        "default": 4,
        "cold": 0,
        "narrow": 1,
    }
    assert all(node["alive"] and node["isolation"] for node in view["pools"]["nodes"])
    for word in (
        "pool-manager-1",
        "node-2",
        "node-2-checkpointer",
        "isolation on node-1",
        "landlock",
        "default",
    ):
        assert word in text


def test_a_taken_port_is_named(folder: Folder, pools: Path, cli_on: CliOn) -> None:
    """The first start of the servers fails with the port and what to do; nothing is left running."""
    with socket.socket() as taker:
        taker.bind(("127.0.0.1", 0))
        taker.listen()
        port = taker.getsockname()[1]

        up = cli_on("up", "--pools", str(pools), "--port", str(port), state=folder.path)

    assert up.returncode == 125
    assert f"port {port} " in up.stderr.splitlines()[-1]
    assert "in use" in up.stderr
    assert cli_on("down", state=folder.path).stdout == "nothing ran\n"


def test_a_server_that_dies_at_its_start_is_quoted(
    folder: Folder, pools: Path, cli_on: CliOn
) -> None:
    """Its own words tell what is wrong: here its store is a file."""
    folder.create()
    layout = open_layout(folder.servers)
    store = layout.servers()[0].store
    store.write_text("not a folder")

    up = cli_on("up", "--pools", str(pools), state=folder.path)

    assert up.returncode == 125
    assert "n1 ended with code" in up.stderr
    assert "storage directory is not a directory" in up.stderr
    assert cli_on("down", state=folder.path).stdout == "nothing ran\n"


def test_a_promise_that_no_node_can_keep_is_refused(
    folder: Folder, tmp_path: Path, cli_on: CliOn
) -> None:
    """`up` says which pool wants what, and why it is not there; nothing is left running."""
    wants = tmp_path / "wants.toml"
    wants.write_text(POOL + 'isolation = "kata"\n')

    up = cli_on("up", "--pools", str(wants), state=folder.path)

    assert up.returncode == 125
    assert "no usable isolation for pool 'default' (isolation = 'kata')" in up.stderr
    assert cli_on("status", state=folder.path).stdout.startswith("down")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("notes.txt", "my own file", "is no state folder of Agent Sandbox (it holds notes.txt)"),
        ("cluster.json", "{", "is damaged or not ours"),
        ("cluster.json", '{"product": "other"}', "is damaged or not ours"),
        (
            "cluster.json",
            '{"product": "agent-sandbox", "format": 99, "id": "x", "created_ms": 1}',
            "has format 99, this version reads 1",
        ),
    ],
)
def test_a_foreign_or_damaged_folder_is_left_alone(
    tmp_path: Path, cli_on: CliOn, name: str, content: str, said: str
) -> None:
    """Nothing is written into what is not ours."""
    (tmp_path / name).write_text(content)

    up = cli_on("up", state=tmp_path)

    assert up.returncode == 125
    assert said in up.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_wrong_pools_file_changes_nothing(folder: Folder, tmp_path: Path, cli_on: CliOn) -> None:
    """The field is named; no process is started."""
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('[[pool]]\nname = "default"\nstok = 3\n')

    up = cli_on("up", "--pools", str(wrong), state=folder.path)

    assert up.returncode == 125
    assert "stok" in up.stderr
    assert not folder.pools_file.exists()
