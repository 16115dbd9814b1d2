"""What became of each session that a fault hit, as a picture: one lane each, from the fault to its next result. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from harness.pictures import LEFT, RIGHT, WIDTH, text, title

LANE = 6
HEAD, FOOT = 40, 34
COLOURS = {"silent": "#c33", "going on": "#d9822b"}


class Lane(NamedTuple):
    """One session, seconds from the fault."""

    detect_s: float | None
    recover_s: float | None
    in_task: bool


class Lanes(NamedTuple):
    """The sessions of one round."""

    title: str
    lanes: Sequence[Lane]
    noticed_s: float | None
    """When Kubernetes noticed; not drawn where that is beyond the last session."""

    @property
    def height(self) -> int:
        """Of the picture."""
        return HEAD + LANE * len(self.lanes) + FOOT

    def draw(self, top: int) -> str:
        """Return SVG elements: red until it was given up, orange until it went on."""
        ends = [one.recover_s or one.detect_s or 0.0 for one in self.lanes]
        end_s = max([*ends, 1.0]) * 1.05
        bottom = top + HEAD + LANE * len(self.lanes)

        def x_of(seconds: float) -> float:
            return LEFT + seconds / end_s * (WIDTH - LEFT - RIGHT)

        parts = [title(self.title, top)]
        for share in (0.0, 0.25, 0.5, 0.75, 1.0):
            x = x_of(share * end_s)
            parts.append(
                f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top + HEAD}" y2="{bottom}"/>'
            )
            parts.append(text(x, bottom + 16, f"{share * end_s:.3g} s", anchor="middle"))
        for index, one in enumerate(_ordered(self.lanes)):
            y = top + HEAD + LANE * index + LANE / 2
            parts += _lane(one, y, end_s, x_of)
        noticed = (
            "not while it lasted" if self.noticed_s is None else f"after {self.noticed_s:.0f} s"
        )
        parts.append(
            text(LEFT, top + 34, f"red: not yet given up; orange: not yet going on; pale: idle when hit. Kubernetes noticed {noticed}")
        )  # fmt: skip
        return "\n".join(parts)


def _ordered(lanes: Sequence[Lane]) -> list[Lane]:
    return sorted(lanes, key=lambda one: (not one.in_task, one.recover_s or one.detect_s or 0.0))


def _lane(one: Lane, y: float, end_s: float, x_of: object) -> list[str]:
    assert callable(x_of)
    given_up = end_s if one.detect_s is None else one.detect_s
    faint = "" if one.in_task else ' stroke-opacity=".4"'
    parts = [
        f'<line stroke="{COLOURS["silent"]}" stroke-width="{LANE - 2}"{faint} '
        f'x1="{x_of(0):.1f}" x2="{x_of(given_up):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
    ]
    if one.detect_s is not None and one.recover_s is not None:
        parts.append(
            f'<line stroke="{COLOURS["going on"]}" stroke-width="{LANE - 2}"{faint} '
            f'x1="{x_of(one.detect_s):.1f}" x2="{x_of(one.recover_s):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
    return parts
