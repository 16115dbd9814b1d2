"""Timelines are whole SVG fields with every line and every mark in place."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from harness.pictures import HEIGHT, LEFT, RIGHT, WIDTH, Series, draw
from harness.timelines import Field, Timeline

SVG = "{http://www.w3.org/2000/svg}"
LINES = {"accepted": [(0.5, 10.0), (9.5, 40.0)], "finished": [(0.5, 0.0), (9.5, 38.0)]}


def test_each_line_and_each_mark_is_drawn_where_it_belongs() -> None:
    """Fields lie below each other and below other pictures; marks stand at their second in each of them."""
    fields = [Field("each second", LINES), Field("ms", LINES, logarithmic=True)]
    timeline = Timeline(10.0, fields, {"kill": [5.0, 10.0], "leader": [0.0]})
    tree = ET.fromstring(draw([Series("x", [1.0], [0.0]), timeline]))

    assert tree.get("height") == str(4 * HEIGHT)
    lines = [line for line in tree.iter(f"{SVG}polyline") if line.get("class") is None]
    assert len(lines) == 4
    for line in lines:
        for point in line.get("points", "").split():
            x, y = map(float, point.split(","))
            assert LEFT <= x <= WIDTH - RIGHT
            assert 2 * HEIGHT < y < 4 * HEIGHT
    moments = [
        float(line.get("x1", "nan"))
        for line in tree.iter(f"{SVG}line")
        if line.get("class") == "moment"
    ]
    assert sorted(moments) == sorted(2 * [LEFT, (LEFT + WIDTH - RIGHT) / 2, WIDTH - RIGHT])
    assert "| kill (2)" in [text.text for text in tree.iter(f"{SVG}text")]


@pytest.mark.parametrize(
    "lines", [{}, {"a": []}, {"a": [(0.0, 0.0)]}, {"a": [(0.0, 1e6), (1.0, 1e6)]}]
)
@pytest.mark.parametrize("logarithmic", [False, True])
def test_odd_values_can_be_drawn(
    lines: dict[str, list[tuple[float, float]]], logarithmic: bool
) -> None:
    """Nothing, zeros and equal values."""
    ET.fromstring(draw([Timeline(1.0, [Field("x", lines, logarithmic)], {})]))
