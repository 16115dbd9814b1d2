"""Makes the reference of the HTTP API from its OpenAPI document, for the site: `python -m gateway.reference`."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from gateway.adapters.http.openapi import document_json
from gateway.adapters.http.site import make_app
from gateway.adapters.http.streams import Streams
from gateway.adapters.measuring import Meter

_SHAPES = """
## Shapes
What bodies and answers are made of. A field that is absent has its default.
"""
Document = dict[str, Any]


def reference() -> str:
    """Return a section for each route, and one for each shape, as Markdown."""
    meter, streams = Meter("reference"), Streams(tenant_streams_max=1)
    made = document_json(
        lambda openapi_config: make_app(meter, streams, openapi_config=openapi_config)
    )
    document = msgspec.json.decode(made)
    page = ""
    for path, operations in sorted(document["paths"].items()):
        for method, operation in operations.items():
            page += _of_operation(f"{method.upper()} {path}", operation)
    page += _SHAPES
    for name, schema in sorted(document["components"]["schemas"].items()):
        page += _of_shape(name, schema)
    return page


def _of_operation(name: str, operation: Document) -> str:
    page = f"\n## `{name}`\n{operation['description'].strip()}\n"
    rows = [
        f"| `{one['name']}` | {one['in']} | {_kind(one['schema'])}"
        f"{', required' if one['required'] else ''} | {_cell(one['description'])} |\n"
        for one in operation["parameters"]
    ]
    if rows:
        page += "\n| parameter | in | type | meaning |\n|---|---|---|---|\n" + "".join(rows)
    if (body := operation.get("requestBody")) is not None:
        needed = "" if body.get("required", True) else ", or nothing"
        page += f"\nBody: {_contents(body['content'])}{needed}\n"
    well = {code: one for code, one in operation["responses"].items() if code < "400"}
    page += "\n| answer | meaning |\n|---|---|\n"
    for code, answer in sorted(well.items()):
        said = _contents(answer.get("content", {}))
        page += f"| {code} | {_cell(answer['description'])}{f' {said}' if said else ''} |\n"
    refusals = sorted(operation["responses"].keys() - well.keys())
    return page + f"\nRefusals, as [Problem](#problem): {', '.join(refusals)}.\n"


def _of_shape(name: str, schema: Document) -> str:
    page = f"\n### {name}\n{schema.get('description', '').strip()}\n"
    required = set(schema.get("required", ()))
    rows = [
        f"| `{field}` | {_kind(kind)}{', required' if field in required else ''}"
        f" | {_cell(kind.get('description', ''))} |\n"
        for field, kind in schema.get("properties", {}).items()
    ]
    if rows:
        return page + "\n| field | type | meaning |\n|---|---|---|\n" + "".join(rows)
    return page + f"\n{_kind(schema)}\n"


def _contents(content: Document) -> str:
    """Return in words what a body is."""
    kinds = []
    for media, about in content.items():
        shape = about.get("schema")
        kinds.append(f"`{media}`" if shape is None else _kind(shape))
    return " or ".join(kinds)


def _kind(schema: Document) -> str:
    """Return a type in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " \\| ".join(f"`{value}`" for value in schema["enum"])
    if (several := schema.get("anyOf") or schema.get("oneOf")) is not None:
        return " \\| ".join(_kind(one) for one in several)
    if schema.get("type") == "array":
        items = schema.get("items") or {}
        return f"list of {_kind(items)}" if items else "list"
    if isinstance(values := schema.get("additionalProperties"), dict) and values:
        return f"object of {_kind(values)}"
    kind = schema.get("type", "anything")
    return " \\| ".join(kind) if isinstance(kind, list) else str(kind)


def _cell(said: str) -> str:
    """Return text as a table's cell holds it."""
    return " ".join(said.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(reference())
