"""The OpenAPI document of all routes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.adapters.http.openapi import document_json
from gateway.adapters.http.site import ROUTES, make_app
from gateway.adapters.http.streams import Streams
from gateway.adapters.measuring import Meter


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The document, as it is sent."""
    meter, streams = Meter("gateway-test"), Streams(tenant_streams_max=1)
    made = document_json(
        lambda openapi_config: make_app(meter, streams, openapi_config=openapi_config)
    )
    found: dict[str, Any] = json.loads(made)
    return found


def test_every_http_route_is_described(document: dict[str, Any]) -> None:
    """One that does not describe itself (`opt=says(…)`) keeps the whole document from being made."""
    described = {
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
    }
    routes = {route.handler_name for route in ROUTES if hasattr(route, "http_methods")}
    assert routes <= described


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    """And what a body may be is said in full."""
    text = json.dumps(document)
    schemas = document["components"]["schemas"]
    named = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert named <= schemas.keys()
    assert schemas["Command"]["oneOf"], "exactly one of argv and shell"
    assert not any(one["$ref"].endswith("Close") for one in schemas["FirstTask"]["anyOf"])
