"""A span as plain data, and how a worker hands some over. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

from shared.messages import Message
from shared.traces.context import Context

SpanKind = Literal["internal", "producer", "consumer", "client", "server"]
Value = str | int | float | bool
SPANS_MAX = 64
"""Spans in one message."""
TEXT_LENGTH_MAX = 256
"""Characters of an attribute; the rest is cut off."""

SYSTEM = "messaging.system"
OPERATION_TYPE = "messaging.operation.type"
OPERATION_NAME = "messaging.operation.name"
DESTINATION = "messaging.destination.name"
TEMPLATE = "messaging.destination.template"
SUBSCRIPTION = "messaging.destination.subscription.name"
MESSAGE_ID = "messaging.message.id"
CONVERSATION_ID = "messaging.message.conversation_id"
BODY_SIZE = "messaging.message.body.size"
CLIENT_ID = "messaging.client.id"
ERROR_TYPE = "error.type"
OURS = "agent_sandbox."
"""Attributes of ours begin so."""


class Link(msgspec.Struct, frozen=True):
    """Another span that this one has to do with, beside its parent."""

    trace: str
    span: str
    why: str
    """`creation`, `previous_attempt`, `lost_attempt`, `token`."""

    @staticmethod
    def to(context: Context, why: str) -> Link:
        """Link to a span."""
        return Link(context.trace_id, context.span_id, why)


class Span(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One act of a trace, finished."""

    name: str
    kind: SpanKind = "internal"
    trace: str
    id: str
    parent: str = ""
    """Empty: the trace begins here."""
    state: str = ""
    start_ns: int
    """Wall clock, nanoseconds since 1970."""
    end_ns: int
    attributes: dict[str, Value] = {}
    links: tuple[Link, ...] = ()
    error: str = ""
    """What went wrong, by its code; empty: nothing."""


class SpanBatch(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Spans of one process, handed to whoever exports them."""

    service: str
    instance: str
    node: str = ""
    pool: str = ""
    spans: tuple[Span, ...] = ()


def messaging(operation: str, kind: str, subject: str, template: str) -> dict[str, Value]:
    """Return the attributes of an act on a message.

    Args:
        operation: `publish`, `fetch`, `process` or `ack`.
        kind: OpenTelemetry's word for it: `send`, `receive`, `process` or `settle`.
        subject: where the message was.
        template: the subject without its names.
    """
    return {
        SYSTEM: "nats",
        OPERATION_TYPE: kind,
        OPERATION_NAME: operation,
        DESTINATION: subject[:TEXT_LENGTH_MAX],
        TEMPLATE: template,
    }
