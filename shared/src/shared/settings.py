"""Settings of a service: read from the environment once, by `__main__`, into a frozen struct."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)


class SettingsError(Exception):
    """The environment does not hold usable settings; the message names every problem."""


def load(kind: type[S], prefix: str, environ: Mapping[str, str]) -> S:
    """Return settings of type `kind` from the variables that start with `prefix`.

    `POOL_NATS_SERVERS` fills the field `nats_servers` for the prefix `POOL_`. Lists are comma-separated.

    Raises:
        SettingsError: a variable is missing, misspelt or out of its limit (named).
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    values: dict[str, object] = {}
    problems: list[str] = []
    for name, text in sorted(environ.items()):
        if not name.startswith(prefix):
            continue
        field = fields.get(name[len(prefix) :].lower())
        if field is None:
            known = ", ".join(prefix + encoded.upper() for encoded in fields)
            problems.append(f"{name}: no such setting (there are: {known})")
            continue
        try:
            values[field.encode_name] = _value(field.type, text)
        except msgspec.ValidationError as exc:
            problems.append(f"{name}: {exc}")
    problems += [
        f"{prefix}{encoded.upper()}: missing"
        for encoded, field in fields.items()
        if field.required and prefix + encoded.upper() not in environ
    ]
    if problems:
        raise SettingsError("; ".join(problems))
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as exc:  # fields that do not go together
        raise SettingsError(f"{prefix}*: {exc}") from exc


def _value(kind: type, text: str) -> object:
    if "tuple" in str(kind):
        items = [item.strip() for item in text.split(",") if item.strip()]
        return msgspec.convert(items, kind, strict=False)
    return msgspec.convert(text, kind, strict=False)


def to_environ(settings: msgspec.Struct, prefix: str) -> dict[str, str]:
    """Return the variables from which `load` makes the same settings again."""
    environ: dict[str, str] = {}
    for name, value in msgspec.structs.asdict(settings).items():
        if value is None:
            continue
        environ[prefix + name.upper()] = (
            ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        )
    return environ
