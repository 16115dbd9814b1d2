"""`python -m agent_sandbox.demo`: exit code 0 when everything was as promised."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import click

from agent_sandbox.access import ClientOptions
from agent_sandbox.client import Client
from agent_sandbox.demo import parts
from agent_sandbox.demo.node_death import node_death
from agent_sandbox.demo.report import Report
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.procs import ProcessId, descendants
from agent_sandbox.embedded.status import look
from agent_sandbox.embedded.table import read_table
from agent_sandbox.embedded.up import down, running_processes, up
from agent_sandbox.embedded.wishes import Wishes
from shared import logs
from shared.errors import ServiceError

EXAMPLES = Path(__file__).parents[4] / "examples"
"""Where the repository has them."""
UP_S = 60.0
PARTS_S = 75.0
FULL_S = 10.0


@click.command()
@click.option(
    "--examples", type=click.Path(exists=True, file_okay=False, path_type=Path), default=EXAMPLES
)
@click.option("--isolation", help="Class to use; the strongest there is where absent.")
def main(examples: Path, isolation: str | None) -> None:
    """Show the whole product on this machine: tasks in, results out, a worker and a node killed on the way."""
    logs.configure(service="demo", level="error")
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM)
    )  # by way of the clean-up
    report = Report()
    began = time.monotonic()
    root = Path(tempfile.mkdtemp(prefix="agent-sandbox-demo-"))
    root.chmod(0o711)  # sandboxes with a uid of their own must get through to their workspace
    folder = Folder(root / "state")
    started: list[ProcessId] = []
    try:
        _start(report, folder, isolation)
        started = _all_processes(folder)
        asyncio.run(_run_parts(report, folder, examples))
        started += _all_processes(folder)
    except ServiceError as exc:
        report.promise(False, f"{exc.code}: {exc}")
    except TimeoutError:
        report.promise(False, f"the parts took longer than {PARTS_S:g} s")
    finally:
        _end(report, folder, started, root)
    took_s = time.monotonic() - began
    if report.broken:
        click.echo(f"\nNOT as promised ({took_s:.0f} s): {'; '.join(report.broken)}")
        sys.exit(1)
    click.echo(f"\nAll as promised, in {took_s:.0f} s.")


def _start(report: Report, folder: Folder, isolation: str | None) -> None:
    report.section("A private cluster: three NATS servers, two pool-managers, two nodes")
    done = up(folder, Wishes(isolation=isolation), wait_s=UP_S, say=lambda _: None)
    report.line(f"up in {done.took_s:.1f} s; servers {', '.join(done.cluster.servers)}")


async def _run_parts(report: Report, folder: Folder, examples: Path) -> None:
    await _wait_full(report, folder)
    async with Client(ClientOptions(state=folder.path)) as client:
        demo = parts.Demo(client=client, folder=folder, examples=examples, report=report)
        async with asyncio.timeout(PARTS_S):
            for part in (parts.analysis, parts.batch, parts.killed, parts.times, node_death):
                await part(demo)


async def _wait_full(report: Report, folder: Folder) -> None:
    """Wait until the pools have their whole stock, and say what they are."""
    until = time.monotonic() + FULL_S
    while True:
        view = await look(folder)
        pools = view.pools.pools if view.pools else ()
        full = bool(pools) and all(pool.warm >= pool.stock for pool in pools)
        if full or time.monotonic() > until:
            break
        await asyncio.sleep(0.1)
    for pool in pools:
        classes = ", ".join(pool.classes) or f"{pool.isolation} (on demand)"
        report.line(f"pool {pool.pool:<8} {pool.warm} of {pool.stock} warm, isolation: {classes}")
    for node in (view.pools.nodes if view.pools else ())[:1]:
        missing = [f"{name}: {why}" for name, why in node.isolation.items() if why]
        report.line(f"not on this machine: {'; '.join(missing)}")
    report.promise(full, "all warm workers wait")


def _all_processes(folder: Folder) -> list[ProcessId]:
    """Return all processes of the cluster, user code among them."""
    table = read_table(folder)
    return [*running_processes(folder), *(descendants(table.supervisor.pid) if table else [])]


def _end(report: Report, folder: Folder, started: list[ProcessId], root: Path) -> None:
    """Take everything down, and look for what is left."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # bounded; a second Ctrl-C would leave processes
    report.section("What is left")
    try:
        if folder.exists():
            started += _all_processes(folder)
            down(folder, say=lambda _: None)
    except ServiceError as exc:
        report.promise(False, f"{exc.code}: {exc}")
    left = {process.pid for process in started if process.is_alive()}
    report.promise(
        not left, f"of {len(set(started))} processes: {', '.join(map(str, left)) or 'none'}"
    )
    if not report.broken or not os.environ.get("AGENT_SANDBOX_KEEP"):
        shutil.rmtree(root, ignore_errors=True)
    report.promise(not root.exists() or bool(report.broken), f"of the folder {root}: nothing")


if __name__ == "__main__":
    main()
