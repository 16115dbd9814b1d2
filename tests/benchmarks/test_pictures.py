"""Pictures are whole SVG documents with everything in place."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from harness.pictures import DOTS_MAX, HEIGHT, LEFT, RIGHT, WIDTH, Box, Series, draw, ticks_between

SVG = "{http://www.w3.org/2000/svg}"


def test_a_picture_shows_each_sample_and_each_target() -> None:
    """One dot for each sample, one line for each target in both fields, names escaped."""
    series = Series("a < b", [1.0, 2.0, 300.0], [0.0, 0.5, 1.0], [("p50 ≤ 10", 10.0)])

    tree = ET.fromstring(draw([series, series]))

    assert len(tree.findall(f"{SVG}circle")) == 6
    assert len([line for line in tree.iter(f"{SVG}line") if line.get("class") == "target"]) == 4
    assert "a < b: 3 samples" in [text.text for text in tree.iter(f"{SVG}text")]
    assert tree.get("height") == str(4 * HEIGHT)


def test_of_very_many_samples_the_slowest_are_all_shown() -> None:
    """The others are thinned out: they lie on top of each other."""
    values = [1.0] * 20_000 + [500.0]
    tree = ET.fromstring(draw([Series("x", values, [float(at) for at in range(len(values))])]))

    dots = tree.findall(f"{SVG}circle")
    assert 3000 < len(dots) <= DOTS_MAX + len(values) // 100 + 1
    assert min(float(dot.get("cy", "nan")) for dot in dots) < max(
        float(dot.get("cy", "nan")) for dot in dots
    )


@pytest.mark.parametrize("values", [[5.0], [5.0, 5.0], [0.0, 1e6]])
def test_odd_samples_stay_within_the_field(values: list[float]) -> None:
    """One sample, equal ones, and a zero on a logarithmic axis."""
    tree = ET.fromstring(draw([Series("x", values, [0.0] * len(values))]))

    for dot in tree.iter(f"{SVG}circle"):
        assert LEFT <= float(dot.get("cx", "nan")) <= WIDTH - RIGHT
        assert 0 <= float(dot.get("cy", "nan")) - HEIGHT <= HEIGHT


def test_the_axis_is_logarithmic() -> None:
    """Equal factors have equal distances."""
    box = Box(0, 1.0, 100.0)

    assert box.x_of(10) - box.x_of(1) == pytest.approx(box.x_of(100) - box.x_of(10))
    assert box.y_of(1) == box.bottom
    assert ticks_between(0.9, 21) == [1, 2, 5, 10, 20]
