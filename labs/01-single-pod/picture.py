"""The picture: each small task beside the busy one, as a dot; and what the curious and the hungry one did."""

from __future__ import annotations

from labs.drawing import Line, over, pairs, picture
from labs.frame import Figures


def draw(wall: Figures, answer: Figures) -> str:
    """Return the picture."""
    lines = [
        Line("a sandbox each", tuple(map(tuple, answer["beside"])), is_dots=True),
        Line("one pod", tuple(map(tuple, wall["beside"])), is_dots=True),
    ]
    dots = over(
        "Small tasks beside a busy neighbour: when sent, how long they took", "ms", "s", lines
    )
    rows = [
        ("secrets read", wall["secrets_read"], answer["secrets_read"]),
        (
            "others lost to one OOM",
            wall["others_lost_to_one_oom"],
            answer["others_lost_to_one_oom"],
        ),
    ]
    return picture(dots, pairs("What a curious and a hungry neighbour did", "", rows))
