"""Where on the HTTP API a thing is found, and which request stands for a question."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from agent_sandbox.keys import Words
from agent_sandbox.orders import Order
from agent_sandbox.over_http.calls import Call
from shared.errors import InvalidMessage
from shared.ids import is_unique
from shared.snapshots import DiffAsk, ForkAsk, NameAsk, SnapshotsAsk
from shared.views import LetterAsk, LettersAsk, ListAsk, ShowAsk, TasksAsk

SILENT_S = 40.0
"""A stream on which nothing comes for so long, not even a sign of life, is dead."""
LONG_TRY_S = 32.0
"""Of what checkpointers answer, who may read from their store."""
CANCEL_TRY_S = 10.0
"""A worker that is cancelled may take seconds to end user code; the gateway waits for its word."""


def session_path(session: str) -> str:
    """Return where a session is."""
    return f"/v1/sessions/{quote(session, safe='')}"


def task_path(session: str, task: str) -> str:
    """Return where a task is."""
    return f"{session_path(session)}/tasks/{quote(task, safe='')}"


def output_paths(session: str, task: str) -> tuple[str, ...]:
    """Return where a task's stream is: a session's first task has two places."""
    first = (f"/v1/tasks/{quote(task, safe='')}/output",) if session == task else ()
    return (f"{task_path(session, task)}/output", *first)


def streamed(call: Call) -> Call:
    """Return the request that publishes the same and asks for the task's stream; without one it is published, too."""
    accept = "text/event-stream, application/json;q=0.5"
    return msgspec.structs.replace(
        call, headers={**call.headers, "accept": accept}, silent_s=SILENT_S
    )


def publish_call(order: Order) -> Call:
    """Return the request that publishes a task, under its id.

    Raises:
        InvalidMessage: the id is none that a gateway takes as it is.
    """
    if not is_unique(order.task):
        raise InvalidMessage(f"task_id: through a gateway a UUID or ULID, got {order.task!r}")
    params = {"wait_s": "0"}
    if order.klass is not None:
        params["class"] = order.klass
    if order.pool is not None:
        params["pool"] = order.pool
    path = f"/v1/sessions/{quote(order.session, safe='')}/tasks"
    if order.letter is not None:
        path = f"/v1/dead-letters/{order.letter}/replay"
        params["new_session"] = "true" if order.pool is not None else "false"
    elif order.pool is not None:
        path = "/v1/sessions" if order.keep else "/v1/tasks"
    return Call(
        method="POST",
        path=path,
        params=params,
        headers={"content-type": "application/json", "idempotency-key": order.task},
        body=None if order.letter is not None else order.body,
        changes=True,
    )


def terminal_call(words: Words) -> Call:
    """Return the request that says something to a terminal; said again, it is typed once."""
    params = {"worker": words.worker, "writer": words.writer, "offset": str(words.offset)}
    if words.size is not None:
        params |= {"rows": str(words.size[0]), "cols": str(words.size[1])}
    if words.hang_up:
        params["hang_up"] = "true"
    return Call(
        method="POST",
        path=f"{task_path(words.session, words.task)}/terminal",
        params=params,
        headers={"content-type": "application/octet-stream"},
        body=words.data,
        changes=True,
    )


def cancel_call(order: Order) -> Call:
    """Return the request that asks for a task's end; with a pool, also of a first one that is not published yet."""
    path, params = f"{task_path(order.session, order.task)}/cancel", {}
    if order.task == order.session and order.pool is not None:
        path, params = f"/v1/tasks/{quote(order.task, safe='')}/cancel", {"pool": order.pool}
    return Call(method="POST", path=path, params=params, changes=True, try_s=CANCEL_TRY_S)


def question_call(what: str, question: msgspec.Struct) -> Call:
    """Return the request that asks what pool-managers are asked without a gateway.

    Raises:
        InvalidMessage: gateways are not asked that.
    """
    match what, question:
        case "pools", _:
            return Call(method="GET", path="/v1/pools")
        case "sessions", ListAsk():
            return Call(method="GET", path="/v1/sessions", params=_params(question))
        case "session", ShowAsk():
            return Call(method="GET", path=f"/v1/sessions/{quote(question.session, safe='')}")
        case "tasks", TasksAsk():
            path = f"/v1/sessions/{quote(question.session, safe='')}/tasks"
            return Call(method="GET", path=path, params=_params(question, "session"))
        case "snapshots", SnapshotsAsk():
            path = f"{session_path(question.session)}/snapshots"
            return Call(method="GET", path=path, try_s=LONG_TRY_S)
        case "snapshot_name", NameAsk():
            named = quote(question.snapshot, safe="")
            return Call(
                method="PUT",
                path=f"{session_path(question.session)}/snapshots/{named}/name",
                params={"name": question.name},
                changes=True,
                try_s=LONG_TRY_S,
            )
        case "fork", ForkAsk():
            return Call(
                method="POST",
                path=f"{session_path(question.session)}/fork",
                params=_params(question, "session", "fork"),
                headers={"idempotency-key": question.fork},
                changes=True,
                try_s=LONG_TRY_S,
            )
        case "diff", DiffAsk():
            path = f"{session_path(question.session)}/diff"
            return Call(
                method="GET", path=path, params=_params(question, "session"), try_s=LONG_TRY_S
            )
        case "dead_letters", LettersAsk():
            return Call(method="GET", path="/v1/dead-letters", params=_params(question))
        case "dead_letter", LetterAsk():
            return Call(method="GET", path=f"/v1/dead-letters/{question.number}")
        case "dead_letter_drop", LetterAsk():
            path = f"/v1/dead-letters/{question.number}"
            return Call(method="DELETE", path=path, changes=True, answers="nothing")
        case _:
            raise InvalidMessage(f"what: a gateway is not asked for {what!r}")


def _params(question: msgspec.Struct, *left_out: str) -> dict[str, str]:
    fields = msgspec.structs.asdict(question)
    return {
        name: str(value)
        for name, value in fields.items()
        if value is not None and name not in ("v", *left_out)
    }
