"""Which of our calls a server's refusal belongs to. Pure.

A refused publish or subscription is not answered: the server sends an error beside it, which names the subject in the
form that it checked (after the account's mapping), in lower case by the time we see it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from shared.headers import REFUSED, WILDCARD

_PUBLISH = re.compile(r'permissions violation for publish(?: with reply of)?(?: to)? "([^"]+)"')
_NOT_IN_NAMES = re.compile(r"[^a-z0-9-]")
_SUBSCRIBE = re.compile(r'permissions violation for subscription to "([^"]+)"')


def refused_publish(text: str) -> str | None:
    """Return the subject of a refused publish; None: the error is about something else."""
    found = _PUBLISH.search(text)
    return found.group(1) if found else None


def refused_subscription(text: str) -> str | None:
    """Return the subject of a refused subscription; None: the error is about something else."""
    found = _SUBSCRIBE.search(text)
    return found.group(1) if found else None


def concerns(refused: str, published: str, headers: Mapping[str, str] | None = None) -> bool:
    """Return whether a refused subject is the one that was published, itself or as a mapping rewrote it.

    Our mappings keep what follows the first word: `task.t.p.batch` becomes `q.2.t.p.batch`. The client edge puts a word
    and the header that it refuses before the subject; a message without that header was let through. A subject with a
    wildcard is refused whatever its message holds.
    """
    wanted = published.lower()
    word, _, tail = refused.partition(".")
    if word == REFUSED:
        why, _, subject = tail.partition(".")
        sent = {_NOT_IN_NAMES.sub("", name.lower()) for name in headers or ()}
        return subject == wanted and (why == WILDCARD or why in sent)
    word, _, tail = wanted.partition(".")
    mapped = word in {"task", "session", "result", "chunk"} and refused.endswith("." + tail)
    return mapped or refused == wanted
