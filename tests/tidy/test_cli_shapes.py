"""The shape of what each command prints with `--json` is written down."""

from __future__ import annotations

from pathlib import Path

from agent_sandbox.cli.root import leaves, root
from agent_sandbox.cli.schema import FILE, schema
from agent_sandbox.cli.shapes import SHAPES, WITHOUT_JSON

DOCS = Path(__file__).parents[2] / "docs"


def test_every_command_has_a_shape() -> None:
    """A new one gets a line in `agent_sandbox.cli.shapes`, and one in tests/e2e/test_cli_everywhere.py."""
    assert {*SHAPES, *WITHOUT_JSON} == set(dict(leaves(root)))


def test_the_shapes_are_documented() -> None:
    """`python -m agent_sandbox.cli.schema docs` makes the file anew."""
    assert (DOCS / FILE).read_text(encoding="utf-8") == schema()
