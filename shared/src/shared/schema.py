"""Documents made from the contract: JSON schemas of tasks and results, and the table of limits.

`python -m shared.schema docs` writes them anew; a test finds them out of step.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from shared import (
    errors,
    files,
    ids,
    letters,
    limits,
    messages,
    record,
    recovery,
    rest,
    snapshots,
    task,
    terminals,
    views,
    workspace,
)
from shared.failpoints.page import faults_page
from shared.messages import TaskResult
from shared.metrics.page import metrics_page
from shared.task import VERSION, Task

DIALECT = "https://json-schema.org/draft/2020-12/schema"
EXACTLY_ONE = {"Command": ("argv", "shell"), "InputFile": ("text", "data", "object")}
"""Fields that exclude one another, which types cannot say; `shared.task.check_task` does."""
UNIT_NAMES = {"bytes": "bytes", "s": "seconds", "length": "characters"}
Schema = dict[str, Any]


def _said(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield each assigned name with the docstring under it."""
    for assignment, following in pairwise(body):
        match assignment, following:
            case (
                ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)),
                ast.Expr(ast.Constant(str(text))),
            ):
                yield name, " ".join(text.split())


def _said_of_fields(*modules: ModuleType) -> dict[str, dict[str, str]]:
    """Return, by class and field, the docstrings under the fields of a module's classes, inherited ones too."""
    said: dict[str, dict[str, str]] = {}
    for module in modules:
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ClassDef):
                inherited = [said.get(ast.unparse(base), {}) for base in node.bases]
                said[node.name] = {k: v for fields in inherited for k, v in fields.items()}
                said[node.name].update(_said(node.body))
    return said


def _described(definitions: dict[str, Schema]) -> dict[str, Schema]:
    said = _said_of_fields(
        errors,
        files,
        recovery,
        workspace,
        messages,
        task,
        record,
        letters,
        views,
        rest,
        terminals,
        snapshots,
    )
    for name, definition in definitions.items():
        for field, schema in definition.get("properties", {}).items():
            if field in said.get(name, {}):
                schema["description"] = said[name][field]
    return definitions


def definitions_of(kinds: Sequence[Any], reference: str) -> dict[str, Schema]:
    """Return the schemas of types and of all that they hold, by name, with what is said of their fields.

    Args:
        kinds: types.
        reference: how one schema refers to another, with `{name}` in it.
    """
    return _described(msgspec.json.schema_components(kinds, ref_template=reference)[1])


def _document(kind: Any, title: str, description: str) -> tuple[Schema, dict[str, Schema]]:
    (reference,), definitions = msgspec.json.schema_components(
        [kind], ref_template="#/$defs/{name}"
    )
    head = {"$schema": DIALECT, "title": title, "description": description, **reference}
    return head, _described(definitions)


def task_schema() -> Schema:
    """Return the JSON schema of what clients publish."""
    head, definitions = _document(
        Task,
        "Task",
        "Body of a task, by its `kind`. Unknown fields are ignored, an unknown version is refused.",
    )
    for definition in definitions.values():
        if "v" in definition["properties"]:
            definition["properties"]["v"].update(
                minimum=1, maximum=VERSION, description="Version of this format."
            )
    for name, fields in EXACTLY_ONE.items():
        definitions[name]["oneOf"] = [
            {"required": [field], "properties": {field: {"not": {"type": "null"}}}}
            for field in fields
        ]
    definitions["WriteFile"]["properties"]["files"]["minItems"] = 1
    definitions["WriteFile"]["required"].append("files")
    return {**head, "$defs": definitions}


def result_schema() -> Schema:
    """Return the JSON schema of what clients read."""
    head, definitions = _document(
        TaskResult,
        "TaskResult",
        "The one terminal result of a task. Fields that have their default are left out.",
    )
    definitions["TaskResult"]["properties"]["v"]["description"] = "Version of this format."
    return {**head, "$defs": definitions}


def _readable(name: str, value: int) -> str:
    """Write a bound with its unit, as the end of its name tells it."""
    unit = next((UNIT_NAMES[word] for word in name.lower().split("_") if word in UNIT_NAMES), "")
    for factor, larger in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if unit == "bytes" and value % factor == 0:
            return f"{value // factor} {larger}"
    if unit == "seconds" and value % 3600 == 0:
        return f"{value // 3600} h"
    return f"{value:,} {unit}".strip()


def limits_table() -> str:
    """Return the table of all bounds as Markdown."""
    rows = []
    for module in (limits, ids):
        for name, said in _said(ast.parse(inspect.getsource(module)).body):
            value = getattr(module, name)
            if name.endswith(("_MAX", "_KEPT", "_S")):
                meaning, _, above = said.partition(" Above: ")
                rows.append(f"| `{name}` | {_readable(name, value)} | {meaning} | {above} |")
    head = (
        "# Limits\n\n"
        "Every bound that a client can meet. Whoever passes one is told which: in the answer to the publish, or in the\n"
        "task's result. What makes a task `invalid` our own client refuses before the publish. Bounds of one tenant are\n"
        "counted by the pool-managers, so what is on its way can pass them for a moment. Bounds of a sandbox (memory,\n"
        "processes, disk) are its pool's: [pools](pools.md).\n\n"
        "| name | bound | meaning | above it |\n|---|---|---|---|\n"
    )
    return head + "\n".join(rows) + "\n"


def documents() -> dict[str, str]:
    """Return the text of each document by its file name."""
    return {
        "task.schema.json": _json(task_schema()),
        "result.schema.json": _json(result_schema()),
        "limits.md": limits_table(),
        "faults.md": faults_page(),
        "metrics.md": metrics_page(),
    }


def _json(schema: Schema) -> str:
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"


def main(folder: Path) -> None:
    """Write all documents into a folder."""
    for name, text in documents().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
