"""A session whose files lie on a volume loses its pod in mid-write: how soon another pod goes on with the same files, and who writes there.

    ./dev bench kubernetes-pvc [--nows 10] [--kills 10] [--deletes 2] [--poweroffs 2] [--cuts 3] [--save]
    ./dev bench kubernetes-pvc --disk-class NAME [--without-s 180] [--disk-rounds 1]

Runs on the system of the kubeconfig's context, with a pool and a volume of its own, which are taken back at the end. Nodes
are powered off and cut by the program that `$AGENT_SANDBOX_FAULTS` names; with `--poweroffs 0 --cuts 0` none is needed.
What the figures mean: benchmarks/README.md. Exits 1 if a bound is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from harness.machine import describe_machine, find_commit
from harness.pictures import Picture
from harness.report import Report
from harness.running import ROOT, CannotMeasure, add_common_options, run
from harness.site import open_site
from kubernetes_parts import volume_figures
from kubernetes_parts.remounts import HOWS, How, Remount, Remounts
from kubernetes_parts.word import Word

from agent_sandbox.kubernetes.names import namespaces
from shared.kubectl import Kubectl
from shared.pools import PoolSpec, Volume
from shared.testing.node_faults import FAULTS_VARIABLE, FaultFailed, NodeFaults

POOL = "bench-pvc"


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="bench kubernetes-pvc", description=(__doc__ or "").splitlines()[0]
    )
    add_common_options(parser)
    parser.set_defaults(isolation="oci")
    parser.add_argument(
        "--context", default=None, help="context of the kubeconfig (its current one)"
    )
    parser.add_argument("--deletes", type=int, default=2, help="pods asked to leave (2)")
    parser.add_argument("--nows", type=int, default=10, help="pods killed after a second (10)")
    parser.add_argument("--kills", type=int, default=10, help="pods deleted by force (10)")
    parser.add_argument("--poweroffs", type=int, default=2, help="nodes powered off (2)")
    parser.add_argument("--cuts", type=int, default=3, help="nodes cut off, which come back (3)")
    parser.add_argument("--stock", type=int, default=3, help="warm workers (3)")
    parser.add_argument(
        "--storage-class", default="", help="of volumes that all nodes mount (the default one)"
    )
    parser.add_argument(
        "--disk-class",
        default="",
        help="of volumes that one node has at a time; else that part is left out",
    )
    parser.add_argument("--disk-rounds", type=int, default=1, help="of each kind there (1)")
    parser.add_argument(
        "--without-s",
        type=float,
        default=180,
        help="seconds without the word that a node is off (180)",
    )
    options = parser.parse_args()
    if min(getattr(options, f"{how}s") for how in HOWS) < 0 or options.stock < 1:
        parser.error(
            "--deletes, --nows, --kills, --poweroffs, --cuts: at least 0; --stock: at least 1"
        )
    return options


async def measure(given: argparse.Namespace) -> tuple[Report, Sequence[Picture]]:
    """Take pods away, one after another, and look at what the next one finds."""
    kinds: list[How] = [how for how in HOWS for _ in range(getattr(given, f"{how}s"))]
    hits_nodes = given.poweroffs or given.cuts or given.disk_class
    faults = NodeFaults.from_environment() if hits_nodes else None
    if faults is None and (given.poweroffs or given.cuts):
        raise CannotMeasure(
            f"${FAULTS_VARIABLE} names no program that does faults to nodes: --poweroffs 0 --cuts 0"
        )
    report = Report("kubernetes-pvc", find_commit(ROOT), {}, volume_figures.targets(given))
    try:
        with faults.mended() if faults is not None else contextlib.nullcontext():
            done = await on_volume(given, Volume(size_gib=1, storage_class=given.storage_class), kinds, faults)  # fmt: skip
            on_disk = await on_a_disk(given, report, faults) if given.disk_class else []
    except FaultFailed as exc:
        raise CannotMeasure(str(exc)) from exc
    report.machine = describe_machine(given.isolation)
    volume_figures.enter(report, done, on_disk)
    return report, volume_figures.pictures(done)


async def on_a_disk(
    given: argparse.Namespace, report: Report, faults: NodeFaults | None
) -> list[Remount]:
    """Do the same where one node has the volume: pods by hand, and the node, without a proof for a while and then with one."""
    kinds: list[How] = ["now"] * given.disk_rounds + ["kill"] * given.disk_rounds
    if faults is not None:
        kinds += ["poweroff"] * given.disk_rounds
    volume = Volume(size_gib=1, storage_class=given.disk_class, access_mode="ReadWriteOnce")
    word = Word(without_s=given.without_s)
    done = await on_volume(given, volume, kinds, faults, word)
    if word.told_s is not None:
        report.add("pvc_disk_told_s", word.told_s)
        report.add("pvc_disk_without_s", given.without_s)
    return done


async def on_volume(
    given: argparse.Namespace,
    volume: Volume,
    kinds: list[How],
    faults: NodeFaults | None,
    word: Word | None = None,
) -> list[Remount]:
    """Take pods of a pool on a volume away, one after another."""
    pool = PoolSpec(
        name=POOL if word is None else f"{POOL}-disk",
        stock=given.stock,
        pods_max=4 * given.stock,
        isolation=given.isolation,
        workspace="pvc",
        volume=volume,
        idle_release_s=600.0,
    )
    async with (
        volume_removed(given.context, pool.name),
        open_site([pool], context=given.context) as site,
    ):
        await site.wait_warm(pool.name, given.stock)
        rounds = Remounts(site, pool.name, given.stock, faults, word)
        async with site.client() as client:
            await rounds.run(client, kinds)
    return rounds.done


@asynccontextmanager
async def volume_removed(context: str | None, pool: str) -> AsyncIterator[None]:
    """Remove what stays of a pool that is taken back: its keepers for a while, its claim for ever."""
    try:
        yield
    finally:
        kubectl, space = Kubectl(context=context), namespaces().pods
        words = ("-n", space, "--ignore-not-found", "--wait=false")
        for kind, name in (
            ("deployment", f"keeper-{pool}"),
            ("persistentvolumeclaim", f"workspaces-{pool}"),
        ):
            await asyncio.to_thread(kubectl.run, "delete", kind, name, *words)


def main() -> int:
    """Run the benchmark; return the exit code."""
    given = parse()
    return run(lambda: measure(given), save=given.save, must_reach=True)


if __name__ == "__main__":
    sys.exit(main())
