"""Replay a trace through the policies of pools: `python -m pool_manager.backtest --trace FILE`.

With `--rate` instead of a trace: what other promises would cost a pool whose demand is as it is now.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from pool_manager.backtest.compare import SHARES, Curve, fixed, oracles, others, ours
from pool_manager.backtest.picture import draw
from pool_manager.backtest.replay import Load
from pool_manager.backtest.said import as_object, tables
from pool_manager.backtest.workloads import WORKLOADS, as_now, from_file
from shared.errors import InvalidMessage

EXIT_USAGE = 2


def parse(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="backtest", description=(__doc__ or "").splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--trace", help=f"a CSV or JSONL file with times, or one of {', '.join(WORKLOADS)}"
    )
    what.add_argument("--rate", type=float, help="activations per second, drawn at random")
    parser.add_argument(
        "--dispersion", type=float, default=1.0, help="how bursty they are (1: Poisson)"
    )
    parser.add_argument(
        "--start-s", type=float, default=45.0, help="mean start-up of a pod, seconds (45)"
    )
    parser.add_argument(
        "--stretch", type=float, default=1.0, help="a file's times are multiplied by that (1)"
    )
    parser.add_argument(
        "--cold-share", type=float, action="append", help="share that may wait (0.01)"
    )
    parser.add_argument("--only-ours", action="store_true", help="leave out all other policies")
    parser.add_argument("--seed", type=int, default=0, help="of whatever is drawn at random (0)")
    parser.add_argument("--picture", type=Path, help="write the curves there, SVG")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args(arguments)
    given.cold_share = given.cold_share or [0.01]
    for name in ("start_s", "stretch", "dispersion", "rate"):
        if (value := getattr(given, name)) is not None and not 0 < value < 1e6:
            parser.error(f"--{name.replace('_', '-')}: above 0 expected")
    if not all(0.0005 <= share <= 0.5 for share in given.cold_share):
        parser.error("--cold-share: 0.0005 to 0.5 expected")
    return given


def load_of(given: argparse.Namespace) -> Load:
    """Return what is to be replayed.

    Raises:
        InvalidMessage: a file does not hold it.
        OSError: there is no such file.
    """
    if given.rate is not None:
        return as_now(given.rate, given.dispersion, lead_s=given.start_s, seed=given.seed)
    if given.trace in WORKLOADS and not Path(given.trace).exists():
        return WORKLOADS[given.trace](given.start_s, given.seed)
    return from_file(
        Path(given.trace), lead_s=given.start_s, stretch=given.stretch, seed=given.seed
    )


def compare(load: Load, given: argparse.Namespace) -> list[Curve]:
    """Return the curves that are asked for."""
    asked = given.cold_share
    if given.only_ours:
        return [ours(load, sorted(asked, reverse=True))]
    shares = sorted({*SHARES, *asked}, reverse=True)
    curves = [ours(load, shares), fixed(load, given.start_s, min(asked)), *others(load)]
    return [*curves, *oracles(load, given.start_s)]


def main(arguments: list[str]) -> int:
    """Replay, and print what came of it; return the exit code."""
    given = parse(arguments)
    try:
        load = load_of(given)
        curves = compare(load, given)
        if given.picture is not None:
            given.picture.write_text(draw(load.name, curves))
    except (InvalidMessage, OSError, ValueError) as exc:
        sys.stderr.write(f"backtest: {exc}\n")
        return EXIT_USAGE
    asked = min(given.cold_share)
    if given.json:
        said = msgspec.json.encode(as_object(load.name, curves, asked)).decode()
    else:
        arrivals = load.arrivals_s
        said = (
            f"{load.name}: {len(arrivals)} activations in {arrivals[-1] / 3600:.1f} h, "
            f"a start takes {given.start_s:g} s\n\n{tables(curves, None if given.only_ours else asked)}"
        )
    sys.stdout.write(said + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
