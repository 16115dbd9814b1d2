"""The picture: what was lost, and how soon it went on."""

from __future__ import annotations

from labs.drawing import bars, pairs, picture
from labs.frame import Figures


def draw(wall: Figures, answer: Figures) -> str:
    """Return the picture."""
    names = ("files_missing_or_wrong", "steps_that_failed", "steps_to_do_again")
    lost = [(name.replace("_", " "), wall[name], answer[name]) for name in names]
    times = [(f"{what} killed", (answer[f"{what}_killed_went_on_s"],)) for what in ("pod", "node")]
    return picture(
        pairs("After the pod's death", "", lost),
        bars("", "Until user code runs again", ("answer",), times, "s"),
    )
