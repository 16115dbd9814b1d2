"""The commands of docs/kubernetes.md, run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from agent_sandbox.kubernetes.names import Namespaces

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "kubernetes.md").read_text()


def test_from_nothing_to_a_result(system: Namespaces, kept_pools: None) -> None:
    """All but the first line, which builds what is on the nodes already: in order, on a system that may be there."""
    found = re.search(
        r"^## From nothing to a result\n```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE
    )
    assert found is not None
    build, *lines = found[1].splitlines()
    assert build.startswith("./dev images ")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    for line in lines:
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=ROOT,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"

    assert "Linux" in done.stdout
