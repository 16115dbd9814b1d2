"""The picture: what the checkers found in each history."""

from __future__ import annotations

from labs.drawing import pairs, picture
from labs.frame import Figures

SHOWN = 8
KINDS = {
    "lost": "acknowledged, and gone",
    "dup": "done twice",
    "fork": "two histories of a session",
    "stale": "stale reads",
}


def draw(wall: Figures, answer: Figures) -> str:
    """Return the picture."""
    rows = [(words, wall[kind], answer[kind]) for kind, words in KINDS.items()]
    stood = "stood_still_after_kill_s"
    return picture(
        pairs("What the chaos checkers found", "", rows),
        pairs(
            "The session whose holder was killed stood still",
            "s",
            [("until it goes on", wall[stood], answer[stood])],
        ),
    )


def tell(wall: Figures, answer: Figures) -> str:
    """Return what the checkers said, for the README."""
    assert not answer["evidence"]
    said = "\n".join(wall["evidence"][:SHOWN])
    return f"What the checkers say of the wall's history, the first {SHOWN} findings:\n\n```text\n{said}\n```"
