"""How long bytes are under way on a bad network, as TCP makes of it: a lost segment is a stall until it is sent again. Pure."""

from __future__ import annotations

from collections.abc import Callable

from chaos.core.dice import Dice

RETRANSMIT_S = 0.2
"""The kernel's least time until it sends a segment again; it doubles with each further loss."""
LOSSES_MAX = 6


def lossy(dice: Dice, *, loss: float, jitter_s: float) -> Callable[[], float]:
    """Return a shape: each chunk takes up to `jitter_s`, and stalls for as long as its losses in a row take.

    Args:
        dice: draws.
        loss: share of chunks that are lost, at each try.
        jitter_s: seconds.
    """

    def under_way() -> float:
        took_s, wait_s = dice.uniform(0, jitter_s), RETRANSMIT_S
        for _ in range(LOSSES_MAX):
            if dice.random() >= loss:
                break
            took_s += wait_s
            wait_s *= 2
        return took_s

    return under_way


def steady(took_s: float) -> Callable[[], float]:
    """Return a shape by which each chunk takes the same time, seconds."""
    return lambda: took_s
