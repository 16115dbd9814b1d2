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
    unknown: list[str] = []
    for name, text in environ.items():
        if not name.startswith(prefix):
            continue
        field = name[len(prefix) :].lower()
        if field not in fields:
            unknown.append(name)
        elif "tuple" in str(fields[field].type):
            values[field] = [item.strip() for item in text.split(",") if item.strip()]
        else:
            values[field] = text
    if unknown:
        raise SettingsError(
            f"unknown settings: {', '.join(sorted(unknown))} (known: {', '.join(prefix + f.upper() for f in fields)})"
        )
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as exc:
        raise SettingsError(f"{prefix}*: {exc}") from exc


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
