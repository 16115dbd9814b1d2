"""How people call snapshots."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shared.errors import InvalidMessage
from shared.limits import SNAPSHOT_NAME_LENGTH_MAX
from shared.snapshots import check_name, check_wanted


@pytest.mark.parametrize("check", [check_name, check_wanted])
@pytest.mark.parametrize(
    "said",
    ["a b", "x/y", "-a", "v1\n", "ü", "x" * (SNAPSHOT_NAME_LENGTH_MAX + 1)],
)
def test_what_is_no_name_is_refused_in_words(check: Callable[[str], str], said: str) -> None:
    """Not by a pattern: it says what is expected, and repeats no more of it than a line holds."""
    with pytest.raises(InvalidMessage, match="letters, digits") as refused:
        check(said)
    assert len(str(refused.value)) < 300


def test_a_name_is_no_beginning_of_an_id() -> None:
    """Else nobody knew what is meant; to mean a snapshot by one is as good as by a name."""
    with pytest.raises(InvalidMessage, match="beginning of an id"):
        check_name("deadbeef")
    assert (check_name(""), check_name("v1.0_b-2")) == ("", "v1.0_b-2")
    assert check_wanted("deadbeef") == "deadbeef"
    with pytest.raises(InvalidMessage):
        check_wanted("")
