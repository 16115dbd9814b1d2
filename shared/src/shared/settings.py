"""Settings of a service: read from the environment once, by `__main__`, into a frozen struct."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec
from msgspec.structs import FieldInfo

from shared.errors import InvalidMessage

S = TypeVar("S", bound=msgspec.Struct)
_ITEM = re.compile(r"(?:\\[\\,]|[^,])+")
_ESCAPED = re.compile(r"\\([\\,])")


class SettingsError(Exception):
    """The environment does not hold usable settings; the message names every problem."""


def load(kind: type[S], prefix: str, environ: Mapping[str, str]) -> S:
    """Return settings of type `kind` from the variables that start with `prefix`.

    `POOL_NATS_SERVERS` fills the field `nats_servers` for the prefix `POOL_`. Lists are comma-separated; a comma that
    belongs to an item, and a backslash before a comma or another one, stand behind a backslash (`join` writes them).

    Raises:
        SettingsError: a variable is missing, misspelt or out of its limit (named).
    """
    fields = _fields(kind)
    given = {
        name[len(prefix) :].lower(): text
        for name, text in environ.items()
        if name.startswith(prefix)
    }
    try:
        if given.keys() <= fields.keys():
            return msgspec.convert(_split(given, fields), kind, strict=False)
    except (msgspec.ValidationError, InvalidMessage) as exc:
        one = f"{prefix}*: {exc}"  # fields that do not go together, unless a single one is to blame
    else:
        one = ""
    raise SettingsError("; ".join(_problems(given, fields, prefix)) or one)


@functools.cache
def _fields(kind: type[msgspec.Struct]) -> dict[str, FieldInfo]:
    """Return a struct's fields by name. Cached: the annotations are evaluated anew each time, for a millisecond."""
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


def _split(given: Mapping[str, str], fields: Mapping[str, FieldInfo]) -> dict[str, object]:
    return {name: _items(text) if _is_list(fields[name]) else text for name, text in given.items()}


def _is_list(field: FieldInfo) -> bool:
    return "tuple" in str(field.type)


def _items(text: str) -> list[str]:
    items = (_ESCAPED.sub(r"\1", item).strip() for item in _ITEM.findall(text))
    return [item for item in items if item]


def join(items: Iterable[object]) -> str:
    """Return a list as `load` reads it."""
    return ",".join(re.sub(r"[\\,]", r"\\\g<0>", str(item)) for item in items)


def _problems(
    given: Mapping[str, str], fields: Mapping[str, FieldInfo], prefix: str
) -> Iterator[str]:
    """Yield every problem, by the variable's name."""
    for name, text in sorted(given.items()):
        field = fields.get(name)
        if field is None:
            known = ", ".join(prefix + encoded.upper() for encoded in fields)
            yield f"{prefix}{name.upper()}: no such setting (there are: {known})"
            continue
        try:
            msgspec.convert(_items(text) if _is_list(field) else text, field.type, strict=False)
        except msgspec.ValidationError as exc:
            yield f"{prefix}{name.upper()}: {exc}"
    for name, field in fields.items():
        if field.required and name not in given:
            yield f"{prefix}{name.upper()}: missing"


def to_environ(settings: msgspec.Struct, prefix: str) -> dict[str, str]:
    """Return the variables from which `load` makes the same settings again."""
    environ: dict[str, str] = {}
    for name, value in msgspec.structs.asdict(settings).items():
        if value is None:
            continue
        environ[prefix + name.upper()] = join(value) if isinstance(value, tuple) else str(value)
    return environ
