"""The workspaces that snapshots are measured with."""

from __future__ import annotations

from pathlib import Path

import pytest
from snapshot_parts.workspaces import make


def test_a_relative_folder_is_meant_from_where_the_program_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs that fill a workspace run in it: handed on as it is, the folder would be made there once more."""
    monkeypatch.chdir(tmp_path)

    made = make("w2", Path("kept"), 0.001)

    assert made == tmp_path / "kept/w2-0.001"
    assert [one.name for one in made.iterdir()] == ["data.sqlite"]
