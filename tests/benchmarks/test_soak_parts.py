"""The pure parts of `bench soak`: whom the nemesis spares, what is counted, and that the negative control still bites."""

from __future__ import annotations

import compileall
import random
from pathlib import Path
from typing import cast

import pytest
from harness.report import Report
from harness.running import CannotMeasure
from soak_parts import figures, unfenced
from soak_parts.load import Load, Sent
from soak_parts.nemesis import Fault, Nemesis
from soak_parts.workers import Busy, Workers

from agent_sandbox.embedded.folder import Folder
from shared import messages
from shared.bus import Bus, Message
from shared.limits import DEATHS_MAX
from shared.messages import Interruption, WorkerBeat
from shared.record import Record
from shared.testing.history import History, Version

TENANT = "default"


def _record(session: str, **changes: object) -> Record:
    fields = {
        "session": session, "tenant": TENANT, "pool": "soak", "state": "running", "lane": "batch",
        "client_lane": "batch", "keep": True, "accepted_ms": 1, "epoch": 1, "owner": "w1", "claimed_ms": 1000,
    }  # fmt: skip
    return messages.decode(messages.encode(Record(**fields | changes)), Record)  # type: ignore[arg-type]  # by name


def _workers(*records: Record, named_epoch: int = 1) -> Workers:
    """Return workers of which each owns one of the records and runs a task of it."""
    workers = Workers()
    for record in records:
        workers.on_stored((0, 1), f"rec.soak.{TENANT}.{record.session}", messages.encode(record))
        beat = WorkerBeat(
            worker=record.owner or "", pool="soak", node="n", state="running", session=record.session,
            tenant=TENANT, epoch=named_epoch, task=f"{record.session}-task",
        )  # fmt: skip
        workers.hear(Message("hb", messages.encode(beat), {}))
    return workers


def _nemesis(workers: Workers, tmp_path: Path, long: set[str]) -> Nemesis:
    return Nemesis(
        folder=Folder(tmp_path),
        bus=None,  # type: ignore[arg-type]  # nothing is asked here
        workers=workers,
        random=random.Random(1),
        now=lambda: 0.0,
        is_long=lambda busy: busy.task[1] in long,
    )


def test_a_task_that_was_hit_twice_is_spared(tmp_path: Path) -> None:
    """The third death would make an innocent task poison; the record of this very epoch says how many there were."""
    spared = _record("a", owner="w1", deaths=DEATHS_MAX - 1)
    other = _record("b", owner="w2", deaths=DEATHS_MAX - 2)
    nemesis = _nemesis(_workers(spared, other), tmp_path, {"a"})

    assert nemesis.choose() == Busy("w2", (TENANT, "b", "b-task"), DEATHS_MAX - 2)


def test_a_worker_whose_record_is_not_known_in_its_epoch_is_spared(tmp_path: Path) -> None:
    """What it has cost so far is not known either."""
    workers = _workers(_record("a"), named_epoch=2)

    assert _nemesis(workers, tmp_path, set()).choose() is None


def test_long_tasks_are_hit_first(tmp_path: Path) -> None:
    """Short ones are over before the signal comes."""
    workers = _workers(*(_record(name, owner=f"w{name}") for name in "abcdef"))

    chosen = {_nemesis(workers, tmp_path, {"c"}).choose() for _ in range(20)}
    assert chosen == {Busy("wc", (TENANT, "c", "c-task"), 0)}


def test_kills_count_where_the_streams_tell_of_a_loss_in_mid_task() -> None:
    """Not where somebody says that he killed; the later word on one loss has when it was made good."""
    lost = Interruption(cause="process_exit", epoch=1, worker="w1", revoked_ms=1_010)
    made_good = Interruption(
        cause="process_exit", epoch=1, worker="w1", revoked_ms=1_010, recovered_ms=1_100
    )
    versions = tuple(
        Version((0, seq), _record("a", epoch=2, interruptions=(one,)))
        for seq, one in ((1, lost), (2, made_good), (3, lost))
    )
    history = History(accepted=(), versions=versions)
    faults = [Fault("kill", 1.0, 1_000, "w1"), Fault("kill", 2.0, 2_000, "w-idle")]
    report = Report("soak", "abc", {}, ())
    figures.add_faults(report, faults, history)

    assert (report.figures["kills"], report.figures["kills_in_task"]) == (2, 1)
    assert report.figures["kills_detect_p50_ms"] == 10
    assert report.figures["kills_recover_max_ms"] == 100
    assert report.figures["stops"] == report.figures["leader_kills"] == 0


def test_the_longest_time_without_a_claim_is_told_with_what_was_around_it() -> None:
    """Only claims under load count, each once, however many versions of its record there are."""
    times = (500, 1_000, 2_000, 9_000, 9_500, 60_000)
    versions = tuple(
        Version((0, 2 * number + copy), _record(f"s{number}", claimed_ms=at))
        for number, at in enumerate(times)
        for copy in (0, 1)
    )
    history = History(accepted=(), versions=versions)
    faults = [Fault("leader", 1.5, 2_500, "n1"), Fault("kill", 1.6, 2_600, "w")]
    report = Report("soak", "abc", {}, ())
    figures.add_claim_gap(report, history, faults, (1_000, 10_000))

    assert report.figures["claim_gap_s"] == 7
    assert report.notes == ["no claim for 7.00 s from 1.0 s on; around it: leader of n1 at +0.50 s"]


def test_a_shorter_run_must_reach_its_share() -> None:
    """The bounds on what must not happen are the same for all."""
    reach = {target.figure: target.reach for target in figures.targets(30)}

    assert (reach["accepted"], reach["kills_in_task"], reach["leader_kills"]) == (1_000, 20, 1)
    assert {
        reach[kind] for kind in ("lost", "doubled", "disordered", "failed", "quarantined", "stale")
    } == {0}


def test_the_timeline_shows_every_task_and_every_kind_of_fault() -> None:
    """Latency is what a task took beyond its own sleep."""
    sent = [
        Sent((TENANT, "s", f"t{n}"), 1.0, n + 0.5, accepted_s=n + 0.6, finished_s=n + 2.0)
        for n in range(10)
    ]
    faults = [Fault("kill", 1.0, 0, "w"), Fault("leader", 2.0, 0, "n1")]
    drawn = figures.timeline(sent, faults)

    assert sum(count for _, count in drawn.fields[0].lines["accepted"]) == 10
    assert {value for _, value in drawn.fields[1].lines["p99"]} == {500.0}
    assert drawn.marks == {"kill": [1.0], "leader": [2.0]}


def test_the_negative_control_takes_the_fence_out_of_the_present_source(tmp_path: Path) -> None:
    """Where the source has changed, it says so instead of measuring a build that is fenced after all."""
    unfenced.build(tmp_path)

    for name, before, _ in unfenced.CHANGES:
        assert before not in (tmp_path / name).read_text()
        assert compileall.compile_file(tmp_path / name, quiet=1)
    with pytest.raises(CannotMeasure, match="negative control"):
        unfenced.take_away(tmp_path)


def test_sessions_that_are_behind_are_not_made_up_for_by_one_shots() -> None:
    """Each of those takes a fresh pod: a system that is slow would be given ever more to do."""
    load = Load(cast(Bus, None), "p", seed=1, sessions=0)
    load.one_shots = 0.5

    assert not any(load._publish_one() for _ in range(100))
    assert load.sent == {}
