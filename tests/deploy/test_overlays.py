"""What overlays say anew is what the base says, but for what they are there for."""

from __future__ import annotations

import tomllib
from pathlib import Path

from pool_manager.core.pod_template import parse_template

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_worker_pods_of_a_small_cluster_differ_in_what_they_ask_for_alone() -> None:
    """So that a change of the base's template is not forgotten in the overlay's; and the manager can read both."""
    base, dev = (
        (DEPLOY / folder / "kubernetes.toml").read_text() for folder in ("base", "overlays/dev")
    )

    there, here = tomllib.loads(base), tomllib.loads(dev)
    sizes = {"sandbox_cpu", "sidecar"}
    assert {key: value for key, value in here.items() if key not in sizes} == there
    asked = parse_template(dev)
    assert asked.sandbox_cpu + asked.sidecar.cpu < parse_template(base).sandbox_cpu
