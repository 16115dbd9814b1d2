"""The page of the Python client: its examples run, and its reference is what the docstrings say."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import agent_sandbox
from agent_sandbox import (
    Client,
    DeadLetters,
    Objects,
    RunningTask,
    Session,
    Shell,
    SyncClient,
    SyncDeadLetters,
    SyncObjects,
    SyncSession,
    SyncShell,
    SyncTask,
)
from agent_sandbox.reference import FILE, INNER, documented, reference

DOCS = Path(__file__).parents[2] / "docs"
BLOCKS = re.findall(r"```python\n(.*?)```", (DOCS / "sdk.md").read_text(), re.DOTALL)
SCREEN_LINES = 24
TWINS = (
    (Client, SyncClient),
    (Session, SyncSession),
    (RunningTask, SyncTask),
    (Shell, SyncShell),
    (Objects, SyncObjects),
    (DeadLetters, SyncDeadLetters),
)


def test_the_reference_is_current() -> None:
    """Made anew by `python -m agent_sandbox.reference docs`."""
    assert (DOCS / FILE).read_text() == reference()


def test_every_public_name_has_its_place_in_the_reference() -> None:
    """But the union of all events."""
    assert set(agent_sandbox.__all__) - documented() == {"Event"}


@pytest.mark.parametrize(("twin", "sync"), TWINS)
def test_both_clients_have_the_same_methods_with_the_same_parameters(
    twin: type, sync: type
) -> None:
    """What is learnt of one is known of the other."""
    left_out = INNER.get(twin.__name__, set()) | {"bus"}  # of a loop
    names = {name for name in dir(twin) if not name.startswith("_")} - left_out
    for name in sorted(names):
        ours, theirs = inspect.getattr_static(twin, name), inspect.getattr_static(sync, name, None)
        assert theirs is not None, f"{sync.__name__}.{name}"
        if inspect.isfunction(ours):
            assert list(inspect.signature(ours).parameters) == list(
                inspect.signature(theirs).parameters
            ), name


def test_the_quick_start_fits_a_screen() -> None:
    """Each of the two."""
    assert [len(block.splitlines()) <= SCREEN_LINES for block in BLOCKS] == [True, True]
