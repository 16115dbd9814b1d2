"""Creates that are answered with the task's events: one request from a task to its output."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing

from litestar import Response

from agent_sandbox import RunningTask
from agent_sandbox.events import Started
from agent_sandbox.positions import START
from agent_sandbox.telling import told, told_result
from gateway.adapters.http.deps import AnyRequest
from gateway.adapters.http.sending import EVENT_STREAM, EventStream
from gateway.adapters.http.streams import Streams
from gateway.adapters.http.views import accepted_view
from gateway.adapters.measuring import Meter
from shared.rest import StreamEvent, TaskView

JSON = "application/json"


def wants_stream(request: AnyRequest, streams: Streams, tenant: str) -> bool:
    """Return whether a create is to be answered with the task's events: `Accept` says so.

    Where it takes a view, too, and no stream can be opened now, it gets that.
    """
    accept = request.accept
    if accept.best_match([JSON, EVENT_STREAM]) != EVENT_STREAM:
        return False
    return streams.has_place(tenant) or not accept.accepts(JSON)


async def follow(
    streams: Streams, meter: Meter, tenant: str, publish: Callable[[], Awaitable[RunningTask]]
) -> Response[bytes]:
    """Publish a task and answer with its events: first that it is accepted, its result last.

    Args:
        streams: those of this gateway.
        meter: notes when it starts.
        tenant: whose it is.
        publish: publishes it.

    Raises:
        ProblemError: there is no place for a stream: nothing was published; or as `publish`.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(streams.place(tenant))
        running = await publish()
        await stack.enter_async_context(meter.hearing(running))
        view = accepted_view(running)
        events = await stack.enter_async_context(aclosing(_events(running, meter, view)))
        fields = {"content-location": view.links["output"]}
        return EventStream(streams, events, stack.pop_all(), fields)


async def _events(
    running: RunningTask, meter: Meter, view: TaskView
) -> AsyncGenerator[StreamEvent, None]:
    task = running.task_id
    yield StreamEvent(event="accepted", id=START.text(task), task=task, view=view)
    async with aclosing(running.events()) as events:
        async for event in events:
            if isinstance(event, Started):
                meter.note(running)
            yield told(event, task)
    yield told_result((await running.result()).raw)
