"""The commands of docs/http-api.md, run as they stand there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent_sandbox.embedded.folder import Folder

PAGE = Path(__file__).parents[2] / "docs/http-api.md"


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_the_commands_of_the_page_work_as_they_stand(embedded: Folder) -> None:
    """A reader pastes them into a shell."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "AGENT_SANDBOX_STATE": str(embedded.path),
    }
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(blocks)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("hello from a file") == 2, "in a result, and as a file"
    assert ran.stdout.count('"text":"streamed\\n"') == 2, "as an event, and in the result behind it"
    assert '"kind":"close"' in ran.stdout
