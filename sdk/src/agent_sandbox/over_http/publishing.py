"""Publishing a task through a gateway, whose answer is the task's stream where that can be had."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

import httpx
import msgspec

from agent_sandbox.orders import Order
from agent_sandbox.over_http.calls import Calls, is_stream
from agent_sandbox.over_http.paths import output_paths, publish_call, streamed
from shared.errors import OutcomeUnknown


class _Names(msgspec.Struct):
    """What every `TaskView` says, also a newer gateway's."""

    task: str
    session: str


async def publish_order(calls: Calls, order: Order, until: float) -> httpx.Response | None:
    """Publish a task, every try under its id, until `until` (monotonic clock); only an answer that names it is one.

    Returns:
        Its stream, for `Calls.reading`; None: it has to be opened, since there is no place for one or the gateway has
        none to give.

    Raises:
        OutcomeUnknown: no answer, or one that does not name the task; it may have been accepted.
        ServiceError: others as `Transport.publish`.
    """
    call, within_s = publish_call(order), until - time.monotonic()
    if order.letter is None and calls.has_place:
        answer = await calls.begin(streamed(call), within_s=within_s)
    else:
        answer = await calls.ask(call, within_s=within_s)
    if _is_named(order, answer):
        return answer if is_stream(answer) else None
    if is_stream(answer):
        await calls.leave(answer)
    raise OutcomeUnknown(
        f"task {order.task}: what answered (HTTP {answer.status_code}) does not name it; is {answer.url.host} "
        "a gateway, or something in between?"
    )


def _is_named(order: Order, answer: httpx.Response) -> bool:
    if is_stream(answer):
        where = urlsplit(answer.headers.get("content-location", "")).path
        return where in output_paths(order.session, order.task)
    try:
        named = msgspec.json.decode(answer.content, type=_Names)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return False
    return (named.task, named.session) == (order.task, order.session)
