"""What a step is, and what can happen at it."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal[
    "crash_before",
    "crash_after",
    "request_lost",
    "request_late",
    "answer_lost",
    "answer_late",
    "effect_late",
]
KINDS: dict[Kind, str] = {
    "crash_before": "the process is killed (SIGKILL) before it asks",
    "crash_after": "the process is killed when what it asked for was done, before it knows",
    "request_lost": "nothing is done, nothing is answered",
    "request_late": "it is done late, and answered just in time",
    "answer_lost": "it is done; the connection breaks before the answer",
    "answer_late": "it is done; the answer comes when nobody waits for it any more, or is old when it comes",
    "effect_late": "nobody answers in time, and it is done behind the back of the caller, after its next look",
}
"""What can happen at a step."""

Form = Literal["write", "read", "say", "local", "note", "join", "pull", "run", "scan"]
FORMS: dict[Form, tuple[Kind, ...]] = {
    "write": tuple(KINDS),
    "read": ("crash_before", "crash_after", "request_late", "answer_lost", "answer_late"),
    "say": ("crash_before", "crash_after", "request_lost", "effect_late"),
    "local": ("crash_before", "crash_after", "request_late"),
    "note": ("crash_before", "crash_after"),
    "join": ("crash_before", "crash_after", "request_lost", "request_late"),
    "pull": ("crash_before", "crash_after", "answer_lost", "answer_late"),
    "run": ("crash_before", "crash_after", "answer_lost", "answer_late"),
    "scan": ("crash_before", "crash_after", "answer_lost"),
}
"""What can happen to each form of call.

write: asks for a change, tried once; no answer is `OutcomeUnknown`.
read: changes nothing; no answer is `Unavailable`; a late answer is an old one.
say: a message that nobody confirms.
local: a call within the pod, which nothing can lose.
note: a file beside the pod, written at once.
join: a subscription; it is there, or `Unavailable`.
pull: one message of a lane; without an answer it is out, and nobody has it until it is delivered again.
run: user code in the sandbox; without an answer the sandbox is lost.
scan: many answers.
"""


class Step(msgspec.Struct, frozen=True):
    """One failpoint."""

    name: str
    form: Form
    act: str
    """What the step belongs to: publish, pull, create, claim, ack, run, commit, release, wake, revoke, recover, …"""
    what: str
    wait_s: float = 1.0
    """How long the caller of a write waits for its answer."""
    story: str = "plain"
    """The drive's stories that come by here (`benchmarks/faults_parts/stories.py`), one word each."""
    wide: bool = False
    """The call is about no session or pool."""
    after: tuple[str, ...] = ()
    """Faults that lead there, placed as well: `step:kind`."""

    @property
    def service(self) -> str:
        """Whose step it is."""
        return self.name.split(".")[0]

    @property
    def place(self) -> str:
        """The module of the loop that makes the call."""
        return self.name.split(".")[1]

    @property
    def method(self) -> str:
        """The port's method."""
        return self.name.split(".")[2].partition("@")[0]

    @property
    def only(self) -> str:
        """The word that a call must be about; empty: any."""
        return self.name.partition("@")[2]

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What can happen here."""
        return FORMS[self.form]
