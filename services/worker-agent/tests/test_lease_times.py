"""When everything has to stand still: before the spare time of a lease begins, however long the tries for a proof take."""

from __future__ import annotations

import pytest

from worker_agent.core.lease import AGAIN_S, EVERY_S, SPARE_S, must_stand_still, try_s


@pytest.mark.parametrize("used", [0.0, 0.1, 0.35, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("lasts_hundredths", range(150, 800, 65))
def test_no_try_goes_on_into_the_spare_time_while_code_runs(
    lasts_hundredths: int, used: float
) -> None:
    """No proof is had again: each try takes a part of its time, up to all of it, and the next one comes soon."""
    left_s = lasts_hundredths / 100 - EVERY_S
    tries = 0
    while not must_stand_still(left_s):
        left_s -= used * try_s(left_s, still=False)
        tries += 1
        if must_stand_still(left_s, for_s=AGAIN_S):
            break
        left_s -= AGAIN_S

    assert left_s >= SPARE_S - 1e-9
    assert tries > 0


def test_a_try_while_all_stands_still_has_its_time() -> None:
    """The lease may be over for long: there is no hurry, and an answer needs time."""
    assert try_s(-60.0, still=True) == try_s(5.0, still=True) > 0


def test_who_wakes_up_in_the_spare_time_stops_first() -> None:
    """The sidecar hung for a while: no try comes before the standstill."""
    assert must_stand_still(SPARE_S / 2)
    assert not must_stand_still(2 * SPARE_S)
