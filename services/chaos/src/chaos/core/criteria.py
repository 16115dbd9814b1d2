"""What must hold of each fault done alone, as data.

Besides these bounds every run must have nothing lost, doubled, forked, stale or written by a zombie, and each accepted task
its end: those are the checkers' matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

Outcome = Literal["pass", "fail", "unknown"]
Figure = Literal[
    "detect_p95_s",
    "recover_p50_s",
    "recover_p95_s",
    "recover_max_s",
    "error_share",
    "queue_gap_s",
    "fences",
    "turn_p99_ratio",
    "delay_max_s",
    "settled_s",
    "over_share",
    "start_gap_s",
]


class Criteria(msgspec.Struct, frozen=True):
    """Of one fault."""

    number: str
    """Its row on the page of faults (docs/chaos-faults.md)."""
    most: Mapping[Figure, float]
    """Figure -> the most that it may be."""


def _recover(
    number: str, detect: float, recover: tuple[float, float, float], error_share: float
) -> Criteria:
    p50, p95, longest = recover
    return Criteria(
        number,
        {
            "detect_p95_s": detect,
            "recover_p50_s": p50,
            "recover_p95_s": p95,
            "recover_max_s": longest,
            "error_share": error_share,
        },
    )


MANAGERS: Mapping[Figure, float] = {
    "fences": 0,
    "delay_max_s": 5,
    "start_gap_s": 5,
    "over_share": 0.1,
    "error_share": 0,
}
CHECKPOINTERS: Mapping[Figure, float] = {"fences": 0, "delay_max_s": 10, "error_share": 0}
CRITERIA: Mapping[str, Criteria] = {
    "nodes-killed": _recover("1", 1, (3.5, 7, 12), 0.001),
    "nodes-vanish": _recover("1b", 4.5, (7, 10, 15), 0.001),
    "queue-leader-killed": Criteria("2", {"queue_gap_s": 1, "error_share": 0}),
    "queue-leader-ended": Criteria("3", {"queue_gap_s": 1.5, "error_share": 0}),
    "nodes-stopped": _recover("4", 4.5, (7, 10, 15), 0.001),
    "nodes-cut-to-servers": _recover("5", 4.5, (7, 10, 20), 0.001),
    "nodes-cut-from-servers": _recover("5", 4.5, (7, 10, 20), 0.001),
    "lossy-network": Criteria("6", {"fences": 0, "turn_p99_ratio": 3, "error_share": 0.005}),
    "slow-store": Criteria("7", {"fences": 0, "error_share": 0.005}),
    "node-disk-full": Criteria("8", {"settled_s": 30, "error_share": 0.01}),
    "server-disk-full": Criteria("8", {"settled_s": 30, "error_share": 0.01}),
    "store-disk-full": Criteria("8", {"settled_s": 30, "error_share": 0.01}),
    "clock-jumps": Criteria("9", {"fences": 0, "error_share": 0}),
    "server-wiped": Criteria("10", {"error_share": 0}),
    "power-loss": Criteria("11", {"delay_max_s": 20}),
    "server-damaged": Criteria("12", {"error_share": 0}),
    "server-truncated": Criteria("12", {"error_share": 0}),
    "snapshots-damaged": Criteria("12", {"error_share": 0.001}),
    "double-fault": _recover("14", 10, (10, 15, 25), 0.005),
    "killed-while-saving": Criteria("15", {"error_share": 0}),
    "killed-while-restoring": Criteria("16", {"error_share": 0.001}),
    "pool-manager-killed": Criteria("17", MANAGERS),
    "pool-managers-killed": Criteria("17", MANAGERS),
    "checkpointer-killed": Criteria("18", CHECKPOINTERS),
    "checkpointer-stopped": Criteria("18", CHECKPOINTERS),
    "poison-task": Criteria("19", {"error_share": 0}),
    "nodes-killed-in-burst": _recover("20", 1, (10, 11, 21), 0.01),
    "processor-hogs": Criteria("+", {"fences": 0, "error_share": 0.005}),
    "memory-hog": Criteria("+", {"fences": 0, "error_share": 0.005}),
    "connection-storm": Criteria("+", {"fences": 0, "error_share": 0.005}),
}
"""Fault -> what must hold; faults of one number are forms of one experiment."""
KUBERNETES_CRITERIA: Mapping[str, Criteria] = {
    **CRITERIA,
    "nodes-killed": Criteria("1", CRITERIA["nodes-vanish"].most),
    "queue-leader-killed": Criteria("2", {"queue_gap_s": 2, "error_share": 0}),
    "pool-manager-killed": Criteria("17", {**MANAGERS, "start_gap_s": 8}),
}
"""The same on Kubernetes: a node that loses its power says nothing any more, and a server on it hangs for the others; one-shots
come up to 3 s apart there."""


def together(outcomes: Sequence[Outcome]) -> Outcome:
    """Return what several outcomes come to: one failure is a failure, and what is not known is no pass."""
    if "fail" in outcomes:
        return "fail"
    return "unknown" if "unknown" in outcomes else "pass"
