"""Every command in the documents is executed by a test; this one keeps the list, and runs what no other test runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [
        ROOT / "README.md",
        ROOT / "ARCHITECTURE.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "benchmarks/README.md",
        *(ROOT / "docs").rglob("*.md"),
        *list(ROOT.glob("labs/**/*.md")),
    ]
)
RUN_BY = {
    "./dev demo": "tests/e2e/test_demo.py",
    "./dev test": "this very run",
    "./dev lint": ".ci/run",
    "./dev up": "test_the_quick_start_works_as_it_stands",
    "./dev cli": "test_the_quick_start_works_as_it_stands",
    "./dev status": "test_the_quick_start_works_as_it_stands",
    "./dev down": "test_the_quick_start_works_as_it_stands",
    "./dev bench": "tests/benchmarks/test_programs.py",
    "./dev docs": "tests/docs/test_site.py",
    "./dev lock": "tests/tidy/test_lock.py",
    "nats": "tests/e2e/test_publish_docs.py",
    "agent-sandbox lab": "tests/labs/test_labs.py, tests/labs/test_pages.py",
    "agent-sandbox tti": "tests/e2e/test_cli_tti.py",
    "agent-sandbox": "tests/e2e/test_cli_run.py, tests/e2e/test_cli_session.py, tests/e2e/test_up_down.py",
}
"""Start of a command -> what executes it."""


RUN_WHOLE = {
    "http-api.md": "tests/e2e/test_http_docs.py",
    "kubernetes.md": "tests/kubernetes/test_kubernetes_page.py",
    "publish.md": "tests/e2e/test_publish_docs.py",
    "quickstart.md": "tests/e2e/test_quickstart.py",
    "running.md": "tests/e2e/test_backup_docs.py",
    "workspace.md": "tests/e2e/test_workspace_docs.py",
}
"""Document whose blocks are run as they stand -> by what."""


def shell_blocks(text: str) -> list[str]:
    """Return the fenced blocks that are meant for a shell."""
    return re.findall(r"^```(?:sh|bash|shell|console)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands(block: str) -> list[str]:
    """Return a block's commands, comments and continued lines left out."""
    joined = block.replace("\\\n", " ")
    lines = (re.sub(r"\s+#.*$", "", line).strip() for line in joined.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_of_a_document_is_executed_somewhere(path: Path) -> None:
    """A command that nothing runs is a command that will be wrong one day."""
    if path.name in RUN_WHOLE:
        return
    unknown = [
        command
        for block in shell_blocks(path.read_text())
        for command in commands(block)
        if not any(command.startswith(start) for start in RUN_BY)
    ]

    assert unknown == []


def test_what_executes_them_is_there() -> None:
    """A test that was renamed executes nothing."""
    runners = [*RUN_BY.values(), *RUN_WHOLE.values()]
    named = [path for text in runners for path in re.findall(r"[\w/]+\.py", text)]

    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", ["economics.md", "pools.md"])
def test_the_backtest_of_a_page_works_as_it_stands(name: str) -> None:
    """It needs no cluster, and says of each policy what idled and who waited."""
    (block,) = shell_blocks((ROOT / "docs" / name).read_text())
    (command,) = commands(block)

    ran = subprocess.run(
        [Path(sys.executable).parent / "agent-sandbox", *command.split()[1:]],
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "self-tuning" in ran.stdout
    assert "fixed" in ran.stdout


@pytest.fixture
def passable() -> Iterator[Path]:
    """A folder that sandboxes with a user of their own can pass through; pytest's own are shut to others."""
    with tempfile.TemporaryDirectory(prefix="agent-sandbox-docs-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.mark.timeout(180)
def test_the_quick_start_works_as_it_stands(passable: Path) -> None:
    """The start of docs/quickstart.md, then README's second block: up, a command, status, down."""
    start = shell_blocks((ROOT / "docs/quickstart.md").read_text())[0]
    quick_start = start + shell_blocks((ROOT / "README.md").read_text())[1]
    environment = {**os.environ, "AGENT_SANDBOX_STATE": str(passable / "state"), "COLUMNS": "120"}

    ran = subprocess.run(
        ["sh", "-ec", quick_start],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "hello from a sandbox" in ran.stdout
