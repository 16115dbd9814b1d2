"""A session's journal: an append list in its workspace, one token for each step of a turn; and the code that keeps it.

A turn's tokens are `<token>.0`, `<token>.1`, …; a turn's token is unique in the run. What a task reads back is told as a
length and a hash chain over all tokens in order, so that two journals that agree on both are the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from chaos.core.rows import Seen

TAIL = 8
"""Newest tokens that a turn's result shows: for people who look for what went wrong."""
FILE = "journal"
CODE = f"""\
import hashlib, time

def journal():
    with open("{FILE}", "a+") as file:
        file.seek(0)
        return file.read().split()

def chain(tokens):
    value = ""
    for token in tokens:
        value = hashlib.sha256((value + token).encode()).hexdigest()[:16]
    return value

for step, pause in enumerate(PAUSES):
    time.sleep(pause)
    with open("{FILE}", "a") as file:
        file.write(f"{{TOKEN}}.{{step}}\\n")
    tokens = journal()
    print("step", TOKEN, step, len(tokens), chain(tokens), flush=True)
tokens = journal()
print("read", len(tokens), chain(tokens), ",".join(tokens[-{TAIL}:]), flush=True)
"""


class Step(msgspec.Struct, frozen=True):
    """A step that user code told of: an effect on the world outside."""

    token: str
    step: int
    length: int
    chain: str


def code_of(token: str, pauses: Sequence[float]) -> str:
    """Return the code of a turn: one step after each pause (the stub of a model's answer), seconds."""
    return f"TOKEN = {token!r}\nPAUSES = {list(pauses)!r}\n{CODE}"


def elements(token: str, steps: int) -> list[str]:
    """Return what a turn appends."""
    return [f"{token}.{step}" for step in range(steps)]


def turn_of(element: str) -> str:
    """Return the turn that an element of a journal belongs to."""
    return element.rpartition(".")[0]


def chains(tokens: Iterable[str]) -> list[str]:
    """Return the chain's value behind each prefix, the empty one first."""
    value = ""
    found = [value]
    for token in tokens:
        value = hashlib.sha256((value + token).encode()).hexdigest()[:16]
        found.append(value)
    return found


def read_step(line: str) -> Step | None:
    """Return the step that a line of output tells of; None: it tells of none."""
    words = line.split()
    if len(words) != 5 or words[0] != "step" or not (words[2].isdigit() and words[3].isdigit()):
        return None
    return Step(words[1], int(words[2]), int(words[3]), words[4])


def read_seen(output: str) -> Seen | None:
    """Return the journal as a turn's output tells of it; None: it does not."""
    for line in reversed(output.splitlines()):
        words = line.split()
        if len(words) in (3, 4) and words[0] == "read" and words[1].isdigit():
            tokens = tuple(words[3].split(",")) if len(words) == 4 else ()
            return Seen(length=int(words[1]), chain=words[2], tokens=tokens)
    return None


def whole(content: str) -> Seen:
    """Return a journal that was read whole."""
    tokens = tuple(content.split())
    return Seen(length=len(tokens), chain=chains(tokens)[-1], tokens=tokens)
