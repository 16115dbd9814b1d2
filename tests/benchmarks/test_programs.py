"""Each benchmark as a person runs it, as short as it can be: it comes to its end, with the figures that it promises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
RUNS = {
    "bus": "--seconds 2 --coroutines 8",
    "faults": "--only worker.claim.ack --lanes 2",
    "gateway": "--seconds 2 --streams 20",
    "idle": "--workers 4 --seconds 3 --settle 1",
    "priority": "--workers 4 --task-ms 150 --batch 20 --interactive 5 --seconds 2",
    "queue-failover": "--kills 1 --hangs 1 --seconds 8 --hang-seconds 3 --rate 5 --sessions 3 --stock 8",
    "recovery": "--worker-kills 4 --node-kills 2 --rate 6 --seed 1 --size 1mb",
    "resume": "--size 1mb --rounds 2",
    "snapshot": "--only w2 --scale 0.02 --rounds 1",
    "pool": "--workload azure-conv --seeds 1 --pods 200",
    "pool-live": "--seconds 12 --burst-seconds 4 --rate 1 --faster 1",
    "sweep": "--sessions 40 --seconds 3",
    "tracing": "--seconds 8 --stock 4",
    "tti": "--only start --only warm --seconds 5 --rate 3 --stock 6",
}
FIGURES = {
    "bus": "publish_ratio latency_ratio publish_ratio_traced",
    "faults": "wrong not_fired",
    "gateway": "gateway_p50_ms direct_p50_ms ratio streams stream_mib slow_stream_mib",
    "idle": "cpu_cores_4 nats_cores_4",
    "priority": "interactive_p99_over_task_ms batch_share recovery_first",
    "queue-failover": "puback_gap_s_kill puback_gap_s_hang start_gap_s_kill start_gap_s_hang bound_late_s errors",
    "recovery": "kills node_kills detect_p95_s recover_p95_s size_1mb_restored_s size_1mb_rolled_back_bytes size_1mb_worker_rolled_back_bytes hits idle_hits",
    "resume": "resume_1mb_p50_s resume_1mb_p95_s restore_1mb_p50_s warm_1mb_p50_s",
    "snapshot": "w2_first_s w2_nochange_s w2_onepercent_s w2_restore_s w2_memory_mib gate_open_s first_files_s",
    "pool": "azure_conv_idle_per_activation_s two_tier_ratio p99_wait_s decision_us_at_10000",
    "pool-live": "trace_cold_share trace_idle_pod_s trace_wait_p99_ms burst_interactive_wait_p99_ms burst_batch_wait_max_ms",
    "sweep": "sweep_cores sweep_cores_empty first_read_s",
    "tracing": "tti_ratio traces_cut cpu_ms_per_task_on recovery_gap_ms",
    "tti": "start_alone_p50_ms warm_p50_ms warm_p99_ms warm_share",
}
ELSEWHERE = {
    "chaos": "tests/chaos/test_headline.py",
    "kubernetes-pvc": "tests/kubernetes/test_benchmarks.py",
    "kubernetes-recovery": "tests/kubernetes/test_benchmarks.py",
    "kubernetes-tti": "tests/kubernetes/test_benchmarks.py",
    "objects": "tests/e2e/test_objects.py",
    "soak": "tests/benchmarks/test_soak.py",
}
SPEEDS = ("idle", "pool", "snapshot", "tti")
"""Of these a missed target is no failure, where the run is not the whole one."""
MUST_HOLD = {
    "faults": ("wrong", "not_fired"),
    "gateway": ("wrong",),
    "pool-live": ("trace_lost", "burst_lost"),
    "queue-failover": ("errors",),
    "recovery": ("lost", "user_errors", "not_recovered"),
    "tracing": ("traces_cut",),
}
"""What holds however slow the machine is and however short the run."""


def test_every_benchmark_is_run_by_a_test() -> None:
    """A program that nothing runs is broken one day."""
    assert {path.stem for path in FOLDER.glob("[a-z]*.py")} == {*RUNS, *ELSEWHERE}


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", RUNS)
def test_a_short_run_ends_with_its_figures(name: str) -> None:
    """How good they are says nothing in so short a time on a machine that does other things; the exit code fits them."""
    done = subprocess.run(
        [sys.executable, FOLDER / f"{name}.py", *RUNS[name].split()],
        capture_output=True,
        text=True,
        timeout=230,
        check=False,
    )

    assert done.stdout, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert set(FIGURES[name].split()) <= set(found["figures"])
    assert {
        figure: found["figures"][figure] for figure in MUST_HOLD.get(name, ())
    } == dict.fromkeys(MUST_HOLD.get(name, ()), 0), done.stdout
    assert done.returncode == (0 if found["ok"] or name in SPEEDS else 1), done.stdout
