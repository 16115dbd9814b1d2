"""What a client sends, as a server gets to see it. Pure: bytes in, bytes out.

Every line is written anew in one form, so that server and filter can not read the same bytes in two ways.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from shared.errors import InvalidMessage
from shared.headers import REFUSED, REPLY, WILDCARD

LINE_BYTES_MAX = 4096
"""The servers' own bound of a line."""
ALLOWED = b"nats-msg-id"
ANSWERS = b"_INBOX"
"""Every user hears the answers to its requests under a name that begins so."""
_END = b"\r\n"
_UNFIT = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_LINES = re.compile(rb"[\r\n]+")
_ID = re.compile(rb"((?:^|[\r\n])[ \t]*nats-msg-id[ \t]*:[ \t]*)(?=[^ \t\r\n])", re.IGNORECASE)
_STORED = {b"task": 1, b"session": 1, b"object": 2}
"""Subjects of which streams are made, by their first token, and which token is the tenant."""
_NOT_IN_NAMES = re.compile(rb"[^a-z0-9-]")
_ARGUMENTS = {b"PUB": (2, 3), b"HPUB": (3, 4), b"SUB": (2, 3), b"UNSUB": (1, 2)}


class ClientHalf:
    """One connection's way from the client to the server. After an error it is of no use."""

    def __init__(self, payload_bytes_max: int, signature: str) -> None:
        """Filter.

        Args:
            payload_bytes_max: the server's bound of a message, headers included.
            signature: proves to the server that the connection comes through this filter.
        """
        self._payload_bytes_max = payload_bytes_max
        self._signature = signature
        self._rest = bytearray()
        self.refused = 0
        """Messages that were not let through."""
        self.token: str | None = None
        """The JWT that the client showed last; None: it has not said who it is."""
        self._asked = False
        self.own_ping = False
        """Whether the first PING is not the client's. Its answer says that the server takes the credential: where the
        client does not ask for it right behind its CONNECT, as all libraries do, it is asked for here."""

    @property
    def held_bytes(self) -> int:
        """Bytes of what is not here whole."""
        return len(self._rest)

    def feed(self, data: bytes) -> bytes:
        """Return what the server is to get, now that `data` came from the client.

        Raises:
            InvalidMessage: that is no protocol; the connection must end.
        """
        rest = self._rest
        rest += data
        out: list[bytes] = []
        at = 0
        while (end := rest.find(_END, at, at + LINE_BYTES_MAX + 2)) >= 0:
            after = self._take(rest, at, end, out)
            if after is None:
                break
            at = after
        else:
            if len(rest) - at > LINE_BYTES_MAX:
                raise InvalidMessage("a line without an end")
        del rest[:at]
        return b"".join(out)

    def _take(self, rest: bytearray, at: int, end: int, out: list[bytes]) -> int | None:
        """Take one command; return where the next one begins, or None: its payload is not here yet."""
        line = bytes(rest[at:end])
        if _UNFIT.search(line) or not _is_text(line):
            raise InvalidMessage("a character that no command holds")
        verb, _, tail = line.lstrip(b" \t").replace(b"\t", b" ").partition(b" ")
        verb = verb.upper()
        if self.token is not None and not self._asked:
            self._asked = True
            self.own_ping = verb != b"PING"
            if self.own_ping:
                out.append(b"PING" + _END)
        start = end + 2
        if verb == b"CONNECT":
            out.append(b"CONNECT " + self._sign(tail) + _END)
        elif verb in (b"PING", b"PONG") and not tail.strip(b" "):
            out.append(verb + _END)
        elif verb in _ARGUMENTS:
            words = [word for word in tail.split(b" ") if word]
            if len(words) not in _ARGUMENTS[verb]:
                raise InvalidMessage(f"{verb.decode()} with {len(words)} arguments")
            if verb in (b"PUB", b"HPUB"):
                return self._publish(verb, words, rest, start, out)
            out.append(b" ".join([verb, *words]) + _END)
        else:
            raise InvalidMessage("an unknown command")
        return start

    def _sign(self, tail: bytes) -> bytes:
        try:
            options = msgspec.json.decode(tail, type=dict[str, Any])
        except (msgspec.DecodeError, msgspec.ValidationError) as exc:
            raise InvalidMessage(f"CONNECT: {exc}") from exc
        self.token = str(options.get("jwt") or "")
        return msgspec.json.encode(options | {"proxy_sig": self._signature})

    def _publish(
        self, verb: bytes, words: list[bytes], rest: bytearray, start: int, out: list[bytes]
    ) -> int | None:
        """Let a message through, or put one in its place whose subject the server refuses, with the reason in it."""
        names, sizes = (words[:-1], words[-1:]) if verb == b"PUB" else (words[:-2], words[-2:])
        if not all(size.isdigit() and len(size) <= 10 for size in sizes):
            raise InvalidMessage(f"{verb.decode()} with a size that is none")
        head_bytes, size = (0 if verb == b"PUB" else int(sizes[0])), int(sizes[-1])
        if size > self._payload_bytes_max or head_bytes > size:
            raise InvalidMessage(f"{verb.decode()} of {size} bytes")
        after = start + size + 2
        if len(rest) < after:
            return None
        if rest[after - 2 : after] != _END:
            raise InvalidMessage(f"{verb.decode()} whose payload has another size")
        name = forbidden_header(bytes(rest[start : start + head_bytes])) if head_bytes else None
        if name is None:
            name = forbidden_name(*names)
        if name is None:
            block = bytes(rest[start : start + head_bytes])
            named = named_for(block, words[0]) if head_bytes else block
            if more := len(named) - head_bytes:
                if size + more > self._payload_bytes_max:
                    raise InvalidMessage(f"{verb.decode()} of {size} bytes")
                words[-2:] = [b"%d" % (head_bytes + more), b"%d" % (size + more)]
            out += (b" ".join([verb, *words]), _END, named, bytes(rest[start + head_bytes : after]))
        else:
            self.refused += 1
            out.append(b"PUB %b.%b.%b 0\r\n\r\n" % (REFUSED.encode(), name, words[0]))
        return after


def named_for(block: bytes, subject: bytes) -> bytes:
    """Return headers with the tenant, as the subject names it, before each message id.

    A stream takes one message of an id, whoever sent it: one tenant's would keep another's out, and the PubAck would say
    all the same that it is stored. Whether the sender may speak for that tenant is the server's to say.
    """
    tokens = subject.split(b".")
    at = _STORED.get(tokens[0])
    if at is None or len(tokens) <= at:
        return block
    return _ID.sub(lambda found: found[1] + tokens[at] + b":", block)


def _is_text(line: bytes) -> bool:
    """Return whether a line is UTF-8. The servers take any bytes, but a name of others nobody could read or repeat."""
    try:
        return line.isascii() or bool(line.decode())
    except UnicodeDecodeError:
        return False


def forbidden_name(subject: bytes, reply: bytes = b"") -> bytes | None:
    """Return `wildcard` or `reply` where a message names what a client must not; None: it does not.

    The servers store a subject with a wildcard as it is, and whoever reads under it later reads others' messages. They
    send an answer to any reply subject without a look at permissions, so that a chunk could be read as another
    tenant's result.
    """
    if _has_wildcard(subject):
        return WILDCARD.encode()
    if reply and (not reply.startswith(ANSWERS) or _has_wildcard(reply)):
        return REPLY.encode()
    return None


def _has_wildcard(subject: bytes) -> bool:
    return (b"*" in subject or b">" in subject) and not {b"*", b">"}.isdisjoint(subject.split(b"."))


def forbidden_header(block: bytes) -> bytes | None:
    """Return the name of a header that a client must not send, in lower case; None: there is none.

    Raises:
        InvalidMessage: these are no headers.
    """
    if not block.startswith(b"NATS/1.0\r\n") or not block.endswith(b"\r\n\r\n"):
        raise InvalidMessage("headers without their frame")
    lower = block.lower()
    if lower.count(b"nats-") == lower.count(b"\r\n" + ALLOWED + b":"):
        return None
    for line in _LINES.split(lower):
        name = line.partition(b":")[0].strip()
        if name.startswith(b"nats-") and name != ALLOWED:
            return _NOT_IN_NAMES.sub(b"", name)[:64]
    return None
