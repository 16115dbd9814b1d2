"""`tti`: how long it takes until user code runs, measured now or as the gateways have seen it lately."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from agent_sandbox import places
from agent_sandbox.access import Access, ClientOptions, find_access
from agent_sandbox.cli.names import complete_pool
from agent_sandbox.cli.options import access_options, json_option, open_client
from agent_sandbox.cli.output import Progress, note, print_json, print_table, print_text
from agent_sandbox.cli.shapes import TtiMeasured, TtiSeen, TtiTask
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.results import Result
from shared.errors import InvalidMessage, ServiceError, Unavailable
from shared.messages import decode
from shared.rest import TtiAnswer, TtiRow
from shared.task import Open
from shared.tti import summarize

COUNT = 5
PAUSE_S = 0.2
DEADLINE_S = 60.0
"""A sandbox that is not there by then is given up; its row says so."""
ASK_S = 5.0
STATISTICS = ("count", "last", "p50", "p90", "p99", "max")


@click.command()
@click.option(
    "--pool",
    default="default",
    show_default=True,
    help="Pool to measure.",
    shell_complete=complete_pool,
)
@click.option(
    "-n",
    "--count",
    type=click.IntRange(1, 1000),
    default=COUNT,
    show_default=True,
    help="Sandboxes to ask for, one after another.",
)
@click.option(
    "--pause",
    "pause_s",
    type=click.FloatRange(0, 60),
    default=PAUSE_S,
    show_default=True,
    metavar="S",
    help="Seconds between two of them, in which the pool can refill.",
)
@click.option(
    "--stats",
    "is_seen",
    is_flag=True,
    help="Measure nothing: show what each gateway measured of its callers' tasks in the last minutes.",
)
@access_options
@json_option
def tti(state: Path | None, as_json: bool, **given: Any) -> None:
    """Measure the time to interactive: from the call to the first instruction of user code.

    Each time a new sandbox is asked for, in whose interpreter nothing is run. `warm` took a worker that waited,
    `on-demand` one that was started for it.
    """
    if given["is_seen"]:
        answers = asyncio.run(_ask_gateways(state))
        print_json(TtiSeen(gateways=answers)) if as_json else _print_seen(answers)
        return
    times = (given["count"], given["pause_s"])
    measured = asyncio.run(_measure(state, given["pool"], times, quiet=as_json))
    print_json(measured) if as_json else _print_measured(measured)


async def _measure(
    state: Path | None, pool: str, times: tuple[int, float], *, quiet: bool
) -> TtiMeasured:
    count, pause_s = times
    tasks: list[TtiTask] = []
    async with open_client(state) as client:
        with Progress(quiet=quiet) as progress:
            for number in range(count):
                progress.say(f"sandbox {number + 1} of {count}")
                if number:
                    await asyncio.sleep(pause_s)
                running = await client.publish(Open(deadline_s=DEADLINE_S), {"pool": pool})
                tasks.append(_task(await running.result(wait_s=2 * DEADLINE_S)))
    return TtiMeasured(pool=pool, tasks=tuple(tasks), rows=_rows(pool, tasks))


def _task(result: Result) -> TtiTask:
    return TtiTask(task=result.task_id, status=result.raw.status, tti=result.tti)


def _rows(pool: str, tasks: Sequence[TtiTask]) -> tuple[TtiRow, ...]:
    known = [each.tti for each in tasks if each.tti is not None]
    paths = sorted({each.path for each in known})
    return tuple(
        summarize(pool, path, [each.tti_ms for each in known if each.path == path])
        for path in paths
    )


async def _ask_gateways(state: Path | None) -> tuple[TtiAnswer, ...]:
    """Ask all gateways: each knows what it measured itself.

    Raises:
        ServiceError: none answers.
    """
    from agent_sandbox.over_http.calls import Call, Calls  # noqa: PLC0415 - 0.2 s that only this way needs

    access = _gateways(open_client(state).options)
    answers: list[TtiAnswer] = []
    failed: ServiceError = Unavailable("no gateway is known")
    for url in access.servers:
        calls = Calls(Access((url,), None, access.token, access.ca))
        try:
            answer = await calls.ask(Call(method="GET", path="/v1/tti"), within_s=ASK_S)
            answers.append(decode(answer.content, TtiAnswer))
        except ServiceError as exc:
            failed = exc
            note(f"{url}: {exc}")
        finally:
            await calls.close()
    if not answers:
        raise failed
    return tuple(answers)


def _gateways(options: ClientOptions) -> Access:
    """Return the gateways that were named, else those of the embedded cluster.

    Raises:
        ServiceError: as `find_access`.
    """
    access = find_access(options, os.environ)
    if access.is_http:
        return access
    folder = Folder(options.state or places.default_state(os.environ))
    here = folder.read()
    if access.servers != here.servers:
        raise InvalidMessage("--stats: gateways have measured it; name them with --server http://…")
    return Access(here.gateways, None, folder.token_file.read_text().strip())


def _print_measured(measured: TtiMeasured) -> None:
    columns = ("task", "path", "ms", "queue", "claim", "start", "note")
    print_table(
        "",
        columns,
        [
            (each.task, None, None, None, None, None, f"{each.status}: not seen to start")
            if each.tti is None
            else (
                each.task,
                each.tti.path,
                *(
                    f"{value:.1f}"
                    for value in (
                        each.tti.tti_ms,
                        each.tti.queue_wait_ms,
                        each.tti.claim_ms,
                        each.tti.start_ms,
                    )
                ),
                None,
            )
            for each in measured.tasks
        ],
    )
    _print_rows("", measured.rows)


def _print_seen(answers: Sequence[TtiAnswer]) -> None:
    for answer in answers:
        title = f"{answer.gateway}, last {answer.window_s / 60:g} min"
        if answer.pools:
            _print_rows(title, answer.pools)
        else:
            print_text(f"{title}: nothing came in through it")


def _print_rows(title: str, rows: Sequence[TtiRow]) -> None:
    print_table(
        title,
        ("pool", "path", *STATISTICS),
        [
            (
                row.pool,
                row.path,
                row.count,
                *(
                    f"{value:.1f}"
                    for value in (row.last_ms, row.p50_ms, row.p90_ms, row.p99_ms, row.max_ms)
                ),
            )
            for row in rows
        ],
    )
