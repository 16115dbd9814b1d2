"""How long the parts of an attempt took."""

from __future__ import annotations

from shared.durations import durations_ms
from shared.messages import Timing

WHOLE = Timing(
    accepted_ms=1000,
    path="warm",
    delivered_ms=1001,
    claimed_ms=1003,
    restored_ms=1007,
    started_ms=1015,
    finished_ms=1047,
)


def test_each_part_is_between_its_two_stamps() -> None:
    """Of a first attempt that brought files all of them are known."""
    assert durations_ms(WHOLE, attempt=1, committed_ms=1111) == {
        "queue_wait": 1,
        "claim": 2,
        "restore": 4,
        "start": 8,
        "tti": 15,
        "run": 32,
        "commit": 64,
    }


def test_what_did_not_happen_took_no_time_at_all() -> None:
    """A later attempt did not wait in the queue, a bound worker claims nothing, and what never ran has no run."""
    later = durations_ms(WHOLE, attempt=2, committed_ms=1111)
    bound = Timing(accepted_ms=1000, path="bound", delivered_ms=1001, claimed_ms=1001, started_ms=5)
    refused = Timing(accepted_ms=1000, path="warm", delivered_ms=1001, claimed_ms=1003)

    assert later.keys() == {"claim", "restore", "start", "run", "commit"}
    assert "claim" not in durations_ms(bound, attempt=1, committed_ms=1111)
    assert durations_ms(refused, attempt=1, committed_ms=1111) == {"queue_wait": 1, "claim": 2}
