"""The error tree: every class has a code of its own, and says whether the thing surely did not happen."""

from __future__ import annotations

import inspect

from shared import errors
from shared.errors import InvariantBroken, OutcomeUnknown, ServiceError

KINDS = [
    kind
    for kind in vars(errors).values()
    if inspect.isclass(kind) and issubclass(kind, ServiceError)
]


def test_every_error_has_a_code_of_its_own() -> None:
    """A client tells them apart by it."""
    codes = [kind.code for kind in KINDS]

    assert len(set(codes)) == len(codes) == 13


def test_only_an_unknown_outcome_is_indefinite() -> None:
    """Whoever gets any other error may take it that nothing happened."""
    assert [kind for kind in KINDS if not kind.definite] == [OutcomeUnknown]


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    """Who reads the top of the module knows them all."""
    told = errors.__doc__ or ""

    assert [kind.__name__ for kind in KINDS if f"{kind.__name__} " not in told] == []


def test_a_broken_invariant_is_no_error_that_a_loop_may_catch() -> None:
    """It is our own bug."""
    assert not issubclass(InvariantBroken, ServiceError)
