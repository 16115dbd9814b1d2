"""Hypothesis strategies for messages: any value that their types and limits allow."""

from __future__ import annotations

from functools import cache
from typing import TypeVar

import msgspec
from hypothesis import strategies as st
from msgspec import inspect as types

M = TypeVar("M", bound=msgspec.Struct)


def messages_of(kind: type[M]) -> st.SearchStrategy[M]:
    """Return a strategy for messages of a type, within the limits that it states."""
    return _plain(kind).map(lambda plain: msgspec.convert(plain, kind))


@cache  # made anew for each example, it would cost most of a property's time
def _plain(kind: type[msgspec.Struct]) -> st.SearchStrategy[object]:
    return _values(types.type_info(kind))


def _values(kind: types.Type) -> st.SearchStrategy[object]:
    """Return a strategy for the plain values that `kind` can be made from."""
    match kind:
        case types.StructType(fields=fields):
            required = {f.encode_name: _values(f.type) for f in fields if f.required}
            optional = {f.encode_name: _values(f.type) for f in fields if not f.required}
            return st.fixed_dictionaries(required, optional=optional)
        case types.UnionType(types=alternatives):
            return st.one_of([_values(alternative) for alternative in alternatives])
        case types.LiteralType(values=values):
            return st.sampled_from(values)
        case types.VarTupleType(item_type=item) | types.ListType(item_type=item):
            return st.lists(_values(item), max_size=3).map(tuple)
        case types.TupleType(item_types=items):
            return st.tuples(*map(_values, items))
        case types.DictType(key_type=key, value_type=value):
            return st.dictionaries(_values(key), _values(value), max_size=3)
        case types.IntType(ge=lowest, le=highest):
            return st.integers(lowest, highest if highest is not None else 1 << 53)
        case types.FloatType():
            return _floats(kind)
        case types.StrType(pattern=str(pattern)):
            return st.from_regex(pattern)
        case types.StrType():
            return st.text(max_size=12)
        case types.BytesType():
            return st.binary(max_size=12)
        case types.BoolType():
            return st.booleans()
        case types.NoneType():
            return st.none()
        case _:
            raise NotImplementedError(f"no strategy for {kind}")


def _floats(kind: types.FloatType) -> st.SearchStrategy[float]:
    lowest = kind.ge if kind.ge is not None else kind.gt
    return st.floats(
        lowest,
        kind.le,
        exclude_min=kind.gt is not None,
        allow_nan=False,
        allow_infinity=False,
    )
