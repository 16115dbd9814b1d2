"""Message headers of ours. Those that start with `Nats-` belong to the server."""

from __future__ import annotations

REFUSED = "refused"
"""First word of the subject `refused.<why>.<subject>`, which the client edge sends in place of a message that clients
must not send: nobody may publish there, so the server's refusal tells the client. Why: a header's name, or one
of the next two."""
WILDCARD = "wildcard"
"""Its subject has a wildcard."""
REPLY = "reply"
"""Its reply subject is none under which clients hear answers."""
MESSAGE_ID = "Nats-Msg-Id"
"""A stream keeps one message of each id for ten minutes, whoever sent it. So the client edge writes the tenant before the
id that a client chose (`<tenant>:<id>`): tenants' ids never meet. Read it by `own_id`."""
TOKEN = "Agent-Token"  # noqa: S105 - a header's name, no secret
"""On a queue message: this is a token; the value is the session that wants a worker. A hint, never the truth."""
CLASS = "Agent-Class"
"""On a session's task: the class in which it asks for a worker, `interactive` or `batch`; absent: the session's own."""
EVENT = "Agent-Event"
"""On an output message: `started`, `output`, `progress`, `recovered`, `workspace_lost`, `truncated`."""
OFFSET = "Agent-Offset"
"""On an output message: bytes of this attempt's output (both streams) before this one."""
STREAM = "Agent-Stream"
"""On an output message: `stdout` or `stderr`."""
STREAM_OFFSET = "Agent-Stream-Offset"
"""On an output message: bytes of this attempt's output on its own stream before this one."""
NUMBER = "Agent-Number"
"""On an output message: how many messages, events too, this attempt had sent before; one that is lost leaves a gap."""
WRITER = "Agent-Writer"
"""On what is typed into a terminal: who types, a name that a client draws for each time that it attaches. With it goes
`OFFSET`: bytes that this writer has typed before."""
SIZE = "Agent-Size"
"""On a message to a terminal: its new size, `<rows> <columns>`."""
HANG_UP = "Agent-Hang-Up"
"""On a message to a terminal: whoever sat before it has left for good; its programs get SIGHUP."""
EPOCH = "Agent-Epoch"
ATTEMPT = "Agent-Attempt"
AT_MS = "Agent-At-Ms"
"""Worker's wall clock, milliseconds since 1970."""
LETTER = "Agent-Letter"
"""On a dead letter: what is known about it, as JSON (`shared.letters.DeadLetter`)."""
REPLAY_OF = "Agent-Replay-Of"
"""On a task: it is a replay of a dead letter; the value is that task's id. The result repeats it."""


def own_id(message_id: str | None, tenant: str) -> str | None:
    """Return the message id that a client of this tenant chose, without what the client edge wrote before it."""
    return None if message_id is None else message_id.removeprefix(f"{tenant}:")
