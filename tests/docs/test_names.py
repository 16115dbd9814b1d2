"""Commands and metrics that documents name are there, in a sentence too: nobody executes a sentence."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from agent_sandbox.cli.root import root
from shared.metrics.declared import DECLARED

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").glob("*.md")])
ENDINGS = ("_bucket", "_sum", "_count")


def unknown(words: list[str]) -> str | None:
    """Return the first word that is no command; None: all are, or are what a command takes."""
    here: click.Command = root
    for word in words:
        if not isinstance(here, click.Group):
            return None
        if word not in here.commands:
            return word
        here = here.commands[word]
    return None


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.name)
def test_every_command_that_a_page_names_is_there(page: Path) -> None:
    """Groups with their verbs."""
    said = re.findall(
        r"(?:`|^|\$\(|\| )(?:agent-sandbox|\./dev cli)((?: [a-z][a-z0-9-]*)+)",
        page.read_text(),
        re.MULTILINE,
    )

    assert [words for words in said if unknown(words.split())] == []


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.name)
def test_every_metric_that_a_page_names_is_exported(page: Path) -> None:
    """Alarms are looked at by these names."""
    exported = {metric.name for metrics in DECLARED.values() for metric in metrics}
    exported |= {name + ending for name in exported for ending in ENDINGS}
    named = set(re.findall(r"`(agent_sandbox_\w+)", page.read_text()))

    assert named - exported == set()
