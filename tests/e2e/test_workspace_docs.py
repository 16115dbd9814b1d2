"""The commands of docs/workspace.md, run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from agent_sandbox.embedded.folder import Folder

PAGE = Path(__file__).parents[2] / "docs/workspace.md"


def test_the_commands_of_the_page_work_as_they_stand(embedded: Folder, tmp_path: Path) -> None:
    """A reader pastes them into a shell; what they print is what the page says."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "AGENT_SANDBOX_STATE": str(embedded.path),
        "COLUMNS": "200",
    }
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(blocks)],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    lines = [" ".join(line.split()) for line in ran.stdout.splitlines()]
    assert "changed 2 B 3 B figures" in lines
    assert "removed 2 B plots/a" in lines
    assert "added 4 B notes" in lines
    assert lines.count("1") == 2, "in the fork, and where the session went back"
    assert "hibernates" in lines
    assert (tmp_path / "workspace-copy" / "figures").read_text() == "1\n"
    assert not (tmp_path / "workspace-copy" / "notes").exists()
