"""Forms of subjects: what spans are called by. Pure."""

from __future__ import annotations

_TEMPLATES = {
    "task": "task.{tenant}.{pool}.{class}",
    "session": "session.{tenant}.{session}.{task}",
    "in": "in.{home}.{tenant}.{session}.{task}",
    "q": "q.{shard}.{tenant}.{pool}.{class}",
    "dlq": "dlq.{tenant}.{pool}",
    "s": "s.{home}.{kind}.{pool}.{tenant}.{session}",
}


def template_of(subject: str) -> str:
    """Return a subject's form without its names: few values for all messages, as names of spans need them."""
    word = subject.partition(".")[0]
    return _TEMPLATES.get(word, f"{word}.>")
