"""Traces in a program that uses OpenTelemetry itself: what it does with us belongs to its spans. Elsewhere nothing is spent.

Nothing of OpenTelemetry is imported here, unless the program has done so before.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

from agent_sandbox.orders import Order
from shared.messages import TaskResult

if TYPE_CHECKING:
    from httpx import Request

    from shared.telemetry import Tracing


class CallSpan(Protocol):
    """A caller's view of a task: from its call to the result."""

    def active(self) -> AbstractContextManager[object]:
        """While inside, what is done belongs to the span."""

    def end(self, status: str) -> None:
        """End it, once: with the result's status, or empty where nobody waits for it any more."""


class NoSpan:
    """Stands for a span where nothing is traced."""

    def active(self) -> AbstractContextManager[object]:
        """Do nothing."""
        return nullcontext()

    def end(self, status: str) -> None:
        """Do nothing."""


def find_tracer() -> Tracing | None:
    """Return what makes spans, in a program that uses OpenTelemetry; None: it does not."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    try:
        from shared.telemetry import own_tracing  # noqa: PLC0415 - only where OpenTelemetry is
    except ImportError:
        return None
    return own_tracing()


def begin_call(order: Order) -> CallSpan:
    """Begin the span of a task that is to be published."""
    tracer = find_tracer()
    if tracer is None:
        return NoSpan()
    return tracer.calling(
        {
            "agent_sandbox.session.id": order.session,
            "agent_sandbox.task.id": order.task,
            "agent_sandbox.pool": order.pool or "",
        }
    )


def status_of(result: TaskResult) -> str:
    """Return how a task ended, as its span says it."""
    return result.status if result.status == "ok" else result.reason or result.status


async def put_context(request: Request) -> None:
    """Put the present span's context into a request's headers, so that the gateway goes on with the trace."""
    if (tracer := find_tracer()) is None:
        return
    fields: dict[str, str] = {}
    tracer.inject(fields)
    request.headers.update(fields)
