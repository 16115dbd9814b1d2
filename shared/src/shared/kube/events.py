"""What a watch tells of one collection: enough to keep a copy of it. Pure."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Listed(msgspec.Struct, Generic[T], frozen=True):
    """All that there is: what is not among it is gone."""

    items: list[T]


class Changed(msgspec.Struct, Generic[T], frozen=True):
    """A new or changed object."""

    item: T


class Removed(msgspec.Struct, Generic[T], frozen=True):
    """An object that is gone, as it was last."""

    item: T


class Fresh(msgspec.Struct, frozen=True):
    """Nothing changed, and the server says so."""


class Lost(msgspec.Struct, frozen=True):
    """There is no watch now; it is tried again."""

    why: str


Watched = Listed[T] | Changed[T] | Removed[T] | Fresh | Lost
