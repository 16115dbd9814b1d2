"""The OpenAPI document: parameters from the routes' signatures, bodies from the types that are sent, answers as routes say.

Litestar's own schemas of bodies lose what JSON Schema could say (bounds of items, base64); those of msgspec do not.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from litestar import Litestar, Response, get
from litestar.openapi import OpenAPIConfig
from litestar.routes import HTTPRoute

from gateway.adapters.http.answers import PROBLEM_TYPE
from gateway.adapters.http.described import KEY, Described, says
from gateway.core.problems import RETRY_AFTER_S, TITLES
from shared import schema
from shared.rest import Problem

PATH = "/v1/openapi.json"
REFERENCE = "#/components/schemas/{name}"
ALWAYS = (400, 401, 403, 408, 421, 429, 431, 503, 504)
"""Problems that any request can meet."""
SAID = {200: "As asked for.", 201: "Created.", 202: "Accepted; it goes on.", 204: "Done."}
VERSION = "1"
Document = dict[str, Any]


def make_document(app: Litestar) -> Document:
    """Return the document of an application that was made with an `openapi_config`."""
    document: Document = app.openapi_schema.to_schema()
    described = _described(app)
    kinds = {
        kind
        for one in described.values()
        for kind in one.answers.values()
        if isinstance(kind, type) and kind is not dict
    }
    document["components"] = {
        "schemas": _schemas([*sorted(kinds, key=lambda kind: str(kind.__name__)), Problem]),
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
    }
    document["security"] = [{"token": []}]
    document["servers"] = [{"url": "/"}]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _complete(operation, described[(path, method)])
    document["paths"].get(PATH, {}).get("get", {})["security"] = []
    return document


def _described(app: Litestar) -> dict[tuple[str, str], Described]:
    """Return what each route says of itself, by its path and method."""
    found = {}
    for route in app.routes:
        if isinstance(route, HTTPRoute):
            for method, (handler, _) in route.route_handler_map.items():
                if handler.include_in_schema is not False and KEY in handler.opt:
                    found[(route.path_format, method.lower())] = handler.opt[KEY]
    return found


def _schemas(kinds: list[Any]) -> dict[str, Any]:
    task = msgspec.json.encode(schema.task_schema()).replace(b"#/$defs/", b"#/components/schemas/")
    whole = msgspec.json.decode(task)
    definitions: dict[str, Any] = schema.definitions_of(kinds, REFERENCE) | whole.pop("$defs")
    for name in ("$schema", "title"):
        whole.pop(name)
    first = dict(whole)
    first["anyOf"] = [one for one in whole["anyOf"] if not one["$ref"].endswith("/Close")]
    mapping = {
        kind: ref for kind, ref in whole["discriminator"]["mapping"].items() if kind != "close"
    }
    first["discriminator"] = {**whole["discriminator"], "mapping": mapping}
    first["description"] = "A session's first task: any kind but `close`."
    return definitions | {"Task": whole, "FirstTask": first}


def _complete(operation: Document, said: Described) -> None:
    """Put into an operation what its route says."""
    answers: Document = {}
    answer: Document
    for status, kind in said.answers.items():
        answers[str(status)] = answer = {"description": SAID[status]}
        if isinstance(kind, str):
            answer["content"] = {kind: {}}
        elif kind is dict:
            answer["content"] = {"application/json": {}}
        elif kind is not None:
            reference = {"$ref": REFERENCE.format(name=kind.__name__)}
            answer["content"] = {"application/json": {"schema": reference}}
        if status in (201, 202) and kind is not None:
            answer["headers"] = {"location": _header("Where it is shown.", "string")}
    if said.streams:
        answer = answers.setdefault("200", {"description": SAID[200], "content": {}})
        answer["content"]["text/event-stream"] = {}
        where = _header("Of a stream: where it is gone on with.", "string")
        answer["headers"] = {"content-location": where}
    for status in sorted({*ALWAYS, *said.problems}):
        reference = {"$ref": REFERENCE.format(name=Problem.__name__)}
        answers[str(status)] = answer = {
            "description": TITLES[status],
            "content": {PROBLEM_TYPE: {"schema": reference}},
        }
        if status in RETRY_AFTER_S:
            answer["headers"] = {"retry-after": _header("Seconds.", "integer")}
    operation["responses"] = answers
    operation["summary"] = operation["description"].split("\n")[0].removesuffix(".")
    operation["parameters"] = [_plain(parameter) for parameter in operation.get("parameters", ())]
    if said.body == "bytes":
        operation["requestBody"] = {"content": {"application/octet-stream": {}}}
    elif said.body is not None:
        name = "FirstTask" if said.body == "first" else "Task"
        content = {"application/json": {"schema": {"$ref": REFERENCE.format(name=name)}}}
        operation["requestBody"] = {"required": said.body == "task", "content": content}


def _plain(parameter: Document) -> Document:
    """Return a parameter without what goes without saying: that it may be absent is no value of its own."""
    kind = dict(parameter["schema"])
    kind.pop("description", None)
    for alternative in kind.pop("oneOf", ()):
        if alternative.get("type") != "null":
            kind |= alternative
    if isinstance(several := kind.get("type"), list):
        kind["type"] = next(one for one in several if one != "null")
    if "enum" in kind:
        kind["enum"] = [value for value in kind["enum"] if value is not None]
    said = {name: parameter[name] for name in ("name", "in", "description", "required")}
    return {**said, "schema": kind}


def _header(description: str, kind: str) -> Document:
    return {"description": description, "schema": {"type": kind}}


def config() -> OpenAPIConfig:
    """Return what the document says of the whole."""
    return OpenAPIConfig(
        title="Agent Sandbox",
        version=VERSION,
        description="Runs untrusted code in warm, confined workers. What is absent in an answer has its default.",
        use_handler_docstrings=True,
        operation_id_creator=lambda handler, _method, _path: str(handler.handler_name),
    )


def route_of(make_app: Any) -> Any:
    """Return the route that serves the document of the application that `make_app` makes, made at the first request."""
    made: list[bytes] = []

    @get(PATH, opt=says({200: dict}), media_type="application/json")
    async def show_openapi() -> Response[bytes]:
        """Show this document."""
        if not made:
            made.append(await asyncio.to_thread(lambda: document_json(make_app)))
        return Response(made[0], media_type="application/json")

    return show_openapi


def document_json(make_app: Any) -> bytes:
    """Return the document as JSON."""
    return msgspec.json.encode(make_document(make_app(openapi_config=config())))
