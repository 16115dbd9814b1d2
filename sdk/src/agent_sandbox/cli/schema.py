"""Makes `docs/cli.schema.json` from the shapes: `python -m agent_sandbox.cli.schema docs`."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from agent_sandbox.cli.shapes import SHAPES, Failure

FILE = "cli.schema.json"


def schema() -> str:
    """Return the JSON Schema of all commands: `commands` names the shapes, `$defs` holds them."""
    kinds = list(dict.fromkeys([Failure, *(kind for kinds in SHAPES.values() for kind in kinds)]))
    refs, parts = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    by_kind = dict(zip(kinds, refs, strict=True))
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What agent-sandbox prints with --json",
        "commands": {
            name: {"anyOf": [by_kind[kind] for kind in (*chosen, Failure)]}
            for name, chosen in SHAPES.items()
        },
        "$defs": parts,
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=1).decode() + "\n"


if __name__ == "__main__":
    (Path(sys.argv[1]) / FILE).write_text(schema(), encoding="utf-8")
