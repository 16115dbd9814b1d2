"""`pool explain`, `pool simulate`, `pool backtest`: why a pool's stock is what it is, and what another promise would cost."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import click

from agent_sandbox.cli.names import complete_pool
from agent_sandbox.cli.options import access_options, json_option
from agent_sandbox.cli.output import print_facts, print_json, print_text
from agent_sandbox.cli.pool import ask_pools, pick
from agent_sandbox.cli.shapes import PoolExplained
from shared.errors import NotFound, OutcomeUnknown, Rejected, Unavailable

PROGRAM = "pool_manager.backtest"
"""Run as a process of its own: the client imports no service."""
LONGEST_S = 3600.0
SHARE = click.FloatRange(0.0005, 0.5)


@click.command()
@click.argument("name", metavar="POOL", shell_complete=complete_pool)
@access_options
@json_option
def explain(name: str, state: Path | None, as_json: bool) -> None:
    """Say in words why a pool's stock is what it is now."""
    found = pick(ask_pools(state), name)
    policy = found.policy
    words = (
        (f"its stock is a number, as declared: {found.stock}",)
        if policy is None
        else policy.explained
    )
    if as_json:
        print_json(PoolExplained(pool=name, stock=found.stock, explained=words, policy=policy))
        return
    print_facts({"pool": name, "stock": str(found.stock), "warm": str(found.warm)})
    for sentence in words:
        print_text(f"- {sentence}")


@click.command()
@click.argument("name", metavar="POOL", shell_complete=complete_pool)
@click.option(
    "--cold-share",
    type=SHARE,
    multiple=True,
    help="Share of activations that may wait; several to compare.",
)
@access_options
@json_option
def simulate(name: str, cold_share: tuple[float, ...], state: Path | None, as_json: bool) -> None:
    """Say what other promises would cost a pool whose demand stays as it is now."""
    found = pick(ask_pools(state), name)
    policy = found.policy
    if policy is None:
        raise Rejected(f"pool {name!r} has no promise, its stock is a number: see `pool backtest`")
    if policy.rate_per_s <= 0:
        raise Unavailable(f"pool {name!r} has seen no activation yet")
    shares = [policy.cold_share, *(cold_share or (policy.cold_share / 10,))]
    asked = [f"--cold-share={min(max(share, 0.0005), 0.5):g}" for share in shares]
    words = (f"--rate={policy.rate_per_s:g}", f"--dispersion={policy.dispersion:g}")
    _replay([*words, f"--start-s={max(policy.start_s, 0.01):g}", "--only-ours", *asked], as_json)


@click.command()
@click.option(
    "--trace",
    required=True,
    metavar="FILE",
    help="CSV or JSONL with times; or poisson, azure-conv, azure-code, servegen, mooncake, mmpp.",
)
@click.option(
    "--cold-share", type=SHARE, multiple=True, help="Share of activations that may wait (0.01)."
)
@click.option(
    "--start-s",
    type=click.FloatRange(0.01, 600),
    default=45.0,
    help="How long a pod takes to start (45).",
)
@click.option(
    "--stretch",
    type=click.FloatRange(0.001, 1000),
    default=1.0,
    help="A file's times are multiplied by it (1).",
)
@click.option("--seed", type=int, default=0, help="Of what is drawn at random (0).")
@click.option("--picture", type=click.Path(dir_okay=False), help="Write the curves there, SVG.")
@json_option
def backtest(  # noqa: PLR0913, PLR0917 - one parameter for each option
    trace: str,
    cold_share: tuple[float, ...],
    start_s: float,
    stretch: float,
    seed: int,
    picture: str | None,
    as_json: bool,
) -> None:
    """Replay recorded arrivals through the policy of pools, and through what others do.

    Prints idle pod-seconds per activation, the share that waited, and how long, at several settings of each.
    """
    words = [
        f"--trace={trace}",
        f"--start-s={start_s:g}",
        f"--stretch={stretch:g}",
        f"--seed={seed}",
    ]
    words += [f"--cold-share={share:g}" for share in cold_share]
    words += [] if picture is None else [f"--picture={picture}"]
    _replay(words, as_json)


def _replay(words: list[str], as_json: bool) -> None:
    if importlib.util.find_spec(PROGRAM.partition(".")[0]) is None:
        raise NotFound("the pool-manager is not installed here: install agent-sandbox[embedded]")
    # -P: what lies in the current folder under that name is not the pool-manager.
    command = [sys.executable, "-P", "-m", PROGRAM, *words, *(["--json"] if as_json else [])]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LONGEST_S, check=False
        )
    except subprocess.TimeoutExpired as exc:
        raise OutcomeUnknown(f"the replay took longer than {LONGEST_S:g} s") from exc
    if done.returncode != 0:
        raise Rejected(done.stderr.strip().removeprefix("backtest: ") or "the replay failed")
    click.echo(done.stdout, nl=False)
