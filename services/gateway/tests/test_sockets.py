"""WebSockets that come to nothing, where there is no cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest

TOKEN = b"Authorization: Bearer a-token-of-the-tests\r\n"
UPGRADE = (
    b"Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" + TOKEN + b"\r\n"
)


@pytest.mark.parametrize(
    ("path", "status_code", "field"),
    [
        (b"/v1/pools", 404, "path"),
        (b"/v1/openapi.json", 404, "path"),
        (b"/v1/nothing", 404, "path"),
        (b"/", 404, "path"),
        (b"/v1/tasks/short/stream", 400, "task_id"),
        (b"/v1/tasks/task-0001/stream?after=", 400, "after"),
        (b"/v1/tasks/task-0001/stream?accepted_ms=-1", 400, "accepted_ms"),
        (b"/v1/tasks/task-0001/stream?after=rubbish", 503, ""),
    ],
)
async def test_a_websocket_that_can_not_be_opened_is_told_why(
    gateway: Any, path: bytes, status_code: int, field: str
) -> None:
    """As any other request; the framework would say 403 and nothing else. (503: there is no cluster behind this one.)"""
    answer = await gateway.say(b"GET " + path + b" HTTP/1.1\r\n" + UPGRADE)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head.lower(), answer
    said = json.loads(body)
    assert int(head.split(b" ", 2)[1]) == said["status"]
    assert (said["status"], said.get("field", "")) == (status_code, field), said
