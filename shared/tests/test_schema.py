"""The documents in docs/ that are made from the contract are in step with it."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec
import pytest

from shared import limits
from shared.messages import Reason, Status
from shared.schema import documents, limits_table, main, result_schema, task_schema
from shared.task import KINDS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    "name", ["task.schema.json", "result.schema.json", "limits.md", "faults.md", "metrics.md"]
)
def test_a_document_is_in_step(name: str) -> None:
    """`python -m shared.schema docs` makes it anew."""
    assert (DOCS / name).read_text(encoding="utf-8") == documents()[name]


def test_all_documents_are_written(tmp_path: Path) -> None:
    """Those, and nothing else."""
    main(tmp_path)

    written = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert written == documents()


def test_the_task_schema_has_every_kind() -> None:
    """A client finds its kind by the `kind` that it writes."""
    schema = task_schema()
    kinds = [
        schema["$defs"][alternative["$ref"].rpartition("/")[2]]["properties"]["kind"]["enum"]
        for alternative in schema["anyOf"]
    ]

    assert kinds == [[kind] for kind in KINDS]


def test_bounds_and_meanings_stand_in_the_schema() -> None:
    """Limits from the types, words from the docstrings under the fields, inherited ones too."""
    command = task_schema()["$defs"]["Command"]["properties"]

    assert command["timeout_s"] == {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": limits.TIMEOUT_S_MAX,
        "default": 3600.0,
        "description": "Longest run of one attempt, seconds; then the user code is killed and the task ends as `timeout`.",
    }
    assert command["v"]["maximum"] == 1
    assert command["shell"]["description"] == "A line for `/bin/sh -c`."


def test_fields_that_exclude_one_another_do_so_in_the_schema() -> None:
    """What `check_task` refuses, the schema refuses."""
    definitions = task_schema()["$defs"]

    def required(name: str) -> list[list[str]]:
        return [alternative["required"] for alternative in definitions[name]["oneOf"]]

    assert required("Command") == [["argv"], ["shell"]]
    assert required("InputFile") == [["text"], ["data"], ["object"]]
    assert definitions["WriteFile"]["required"] == ["kind", "files"]


def test_every_reference_leads_somewhere() -> None:
    """A schema can be read by itself."""
    for schema in (task_schema(), result_schema()):
        text = msgspec.json.encode(schema).decode()
        wanted = {piece.partition('"')[0] for piece in text.split('"$ref":"#/$defs/')[1:]}

        assert wanted
        assert wanted <= set(schema["$defs"])


def test_every_limit_stands_in_the_table_with_its_unit() -> None:
    """None is forgotten, and a person can read them."""
    table = limits_table()

    assert [name for name in dir(limits) if name.isupper() and f"`{name}`" not in table] == []
    assert "| `BODY_BYTES_MAX` | 256 KiB | Body of a published task." in table
    assert "| `TIMEOUT_S_MAX` | 24 h |" in table
    assert "| `ENV_VALUE_LENGTH_MAX` | 16,384 characters |" in table
    assert "| `ID_LENGTH_MAX` | 64 characters |" in table


def test_every_status_and_reason_has_its_meaning() -> None:
    """A client decides by them: docs/results.md says what they mean."""
    table = [
        line.split("|") for line in (DOCS / "results.md").read_text().splitlines() if "|" in line
    ]
    named = {word.strip().strip("`") for row in table for word in ",".join(row[1:3]).split(",")}

    assert set(get_args(Status)) | set(get_args(Reason)) <= named
