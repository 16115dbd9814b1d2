"""rules.md tells the truth: what it names exists, and nothing is unnamed."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import shared.bus

FOLDER = Path(__file__).parent
NOT_CALLED = {
    "add_consumer", "add_stream", "create_key_value", "create_object_store", "fetch", "jetstream", "key_value",
    "object_store", "publish_async", "pull_subscribe", "update_stream",
}  # fmt: skip


@pytest.fixture
def tests() -> set[str]:
    """Names of all tests of the suite."""
    files = [*FOLDER.glob("test_*.py"), FOLDER.parent / "test_bus_tls.py"]
    found = re.findall(r"def (test_\w+)", "\n".join(file.read_text() for file in files))
    return set(found) - {name for name in found if name.startswith("test_the_rules_")}


def test_the_rules_name_all_tests_and_no_others(tests: set[str]) -> None:
    """A newcomer finds what proves a rule, and a test that was renamed is missed."""
    named = set(re.findall(r"`(test_\w+)`", (FOLDER / "rules.md").read_text()))

    assert named == tests


def test_what_the_library_gets_wrong_is_not_called() -> None:
    """Its own words for these things stand nowhere in `shared.bus`."""
    files = sorted(Path(shared.bus.__file__).parent.glob("*.py"))
    called = {
        node.attr
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute)
    }

    assert "force_reconnect" in called  # it does look at calls
    assert not called & NOT_CALLED
