"""Which trace a task belongs to: W3C context as it travels in headers and stands in records. Pure.

Ids that several processes must agree on are derived, not drawn: the trace of a task whose publisher said nothing, and the
span of an attempt, which whoever comes later links to, and which a pool-manager writes for a worker that was killed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

import msgspec

from shared.limits import TRACESTATE_LENGTH_MAX

TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"
STATE_ITEMS_MAX = 32
_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[ -~]{0,200})?")
_STATE = re.compile(r"[ -~]*")
_SAMPLED = 1


class Context(msgspec.Struct, frozen=True):
    """A span of somebody's: what its children and links need to know of it."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 hexadecimal digits."""
    sampled: bool = True
    """Whoever began the trace wants it kept."""
    state: str = ""
    """`tracestate`: what other systems noted; passed on as it came."""

    @property
    def traceparent(self) -> str:
        """The context as a header's value."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"

    def put(self, fields: dict[str, str]) -> None:
        """Put the context into headers."""
        fields[TRACEPARENT] = self.traceparent
        if self.state:
            fields[TRACESTATE] = self.state
        else:
            fields.pop(TRACESTATE, None)


def read_context(fields: Mapping[str, str]) -> Context | None:
    """Return the context in a message's headers; None: there is none, or it is rubbish.

    Some libraries write each header with a capital.
    """
    parent = fields.get(TRACEPARENT) or fields.get("Traceparent")
    if not parent:
        return None
    return parse_context(parent, fields.get(TRACESTATE) or fields.get("Tracestate") or "")


def parse_context(parent: str, state: str = "") -> Context | None:
    """Return the context that a `traceparent` and a `tracestate` give; None: it is none."""
    found = _PARENT.fullmatch(parent.strip() if len(parent) <= TRACESTATE_LENGTH_MAX else "")
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not trace_id.strip("0"):
        return None
    if not span_id.strip("0"):
        return None
    return Context(trace_id, span_id, bool(int(flags, 16) & _SAMPLED), _fit_state(state))


def _fit_state(state: str) -> str:
    """Return a `tracestate` that may be passed on, or nothing."""
    fits = len(state) <= TRACESTATE_LENGTH_MAX and state.count(",") < STATE_ITEMS_MAX
    return state.strip() if fits and _STATE.fullmatch(state) else ""


class Sampling(msgspec.Struct, frozen=True):
    """Which traces are kept. Every process that decides by the same settings decides alike."""

    ratio: float = 1.0
    """Part of the traces that begin here."""
    heeds_parent: bool = True
    """Of others' traces those are kept whose publisher wants it."""

    def keeps(self, trace_id: str, parent: Context | None) -> bool:
        """Return whether spans of a trace are noted."""
        if parent is not None and self.heeds_parent:
            return parent.sampled
        return int(trace_id[16:], 16) < round(self.ratio * (1 << 64))


class Trace(msgspec.Struct, frozen=True):
    """The trace of one task."""

    parent: Context
    """Under which its spans hang: the publisher's, or the task's acceptance."""
    sampled: bool
    is_root: bool
    """The publisher said nothing: the trace begins with the acceptance."""

    @property
    def span_parent(self) -> Context:
        """What spans of the task hang under, saying whether they are kept."""
        return msgspec.structs.replace(self.parent, sampled=self.sampled)

    def attempt(self, task: str, epoch: int) -> Context:
        """Return the span of an attempt, of whichever worker."""
        return self.child("attempt", task, str(epoch))

    def accepted(self) -> Context:
        """Return the span of the wait in the queue; where the publisher said nothing, the root."""
        return self.parent if self.is_root else self.child("accepted")

    def child(self, *names: str) -> Context:
        """Return a span of the trace that everybody calls by the same id."""
        span_id = _digest(self.parent.trace_id, self.parent.span_id, *names)[:16]
        return Context(self.parent.trace_id, span_id, self.sampled, self.parent.state)


def trace_of(
    parent: Context | None, names: tuple[str, str, str], accepted_ms: int, sampling: Sampling
) -> Trace:
    """Return the trace of a task.

    Args:
        parent: what its publisher said.
        names: its tenant, session and id.
        accepted_ms: the stream's clock when it was accepted.
        sampling: how it is decided whether it is kept.
    """
    if parent is not None:
        return Trace(parent, sampling.keeps(parent.trace_id, parent), is_root=False)
    digest = _digest("trace", *names, str(accepted_ms))
    keeps = sampling.keeps(digest[:32], None)
    return Trace(Context(digest[:32], digest[32:48], keeps), keeps, is_root=True)


def _digest(*words: str) -> str:
    return hashlib.sha256("/".join(words).encode(errors="replace")).hexdigest()
