"""Each import contract of pyproject.toml catches the violation that it is there for.

One copy of the source gets all violations planted at once, import-linter runs once, and each test looks for its
own in what was reported.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest


class Planted(NamedTuple):
    """A violation: which contract forbids it, the module that holds it, and its import."""

    contract: str
    module: str
    imports: str


PLANTED = [
    Planted("services-independent", "pool_manager.planted", "local_node"),
    Planted("services-independent", "local_node.planted", "worker_agent"),
    Planted("runner-by-name", "local_node.planted", "sandbox_runner"),
    Planted("shared-below-all", "shared.planted_up", "agent_sandbox"),
    Planted("shared-below-all", "agent_sandbox.planted", "pool_manager"),
    Planted("shared-below-all", "agent_sandbox.planted", "gateway"),
    Planted("services-independent", "gateway.planted", "pool_manager"),
    Planted("services-independent", "chaos.planted", "local_node"),
    Planted("shared-below-all", "agent_sandbox.planted", "chaos"),
    Planted("shared-below-all", "agent_sandbox.planted", "labs"),
    Planted("shared-below-all", "chaos.planted", "labs"),
    Planted("pure-core", "pool_manager.core.planted", "time"),
    Planted("pure-core", "worker_agent.core.planted", "asyncio"),
    Planted("pure-core", "local_node.core.planted", "structlog"),
    Planted("pure-core", "shared.subjects", "random"),
    Planted("nats-in-bus", "shared.planted", "nats"),
    Planted("nats-in-bus", "pool_manager.planted", "nats"),
    Planted("nats-in-bus", "labs.planted", "nats"),
    Planted("opentelemetry-in-telemetry", "shared.planted", "opentelemetry"),
    Planted("opentelemetry-in-telemetry", "pool_manager.planted", "opentelemetry"),
    Planted("prometheus-in-metrics", "shared.planted", "prometheus_client"),
    Planted("prometheus-in-metrics", "pool_manager.planted", "prometheus_client"),
    Planted("nkeys-in-identity", "worker_agent.planted", "nkeys"),
    Planted("nkeys-in-identity", "shared.planted", "nacl"),
    Planted("kubernetes-in-kube", "pool_manager.planted", "kubernetes"),
    Planted("snapshots-in-checkpointer", "worker_agent.planted", "blake3"),
    Planted("snapshots-in-checkpointer", "shared.planted", "zstandard"),
    Planted("loops-see-ports", "pool_manager.loops.planted", "shared.planted"),
    Planted("layers-in-a-service", "worker_agent.core.planted", "worker_agent.app"),
    Planted("layers-in-a-service", "pool_manager.loops.planted", "pool_manager.adapters.planted"),
    Planted("runner-stdlib-only", "sandbox_runner.planted", "msgspec"),
    Planted("runner-stdlib-only", "sandbox_runner.planted", "shared"),
    Planted("runner-stdlib-only", "sandbox_runner.planted", "worker_agent"),
    Planted("runner-stdlib-only", "sandbox_init.planted", "shared"),
    Planted("runner-stdlib-only", "confinement.planted", "shared"),
    Planted("runner-by-name", "pool_manager.planted", "sandbox_init"),
]


def _plant(source: Path, module: str, line: str) -> None:
    """Append one line to a module of the copy; make the module and its packages when missing."""
    *packages, name = module.split(".")
    folder = source
    for package in packages:
        folder /= package
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").touch()
    path = folder / name / "__init__.py" if (folder / name).is_dir() else folder / f"{name}.py"
    with path.open("a") as file:
        file.write(f"\n{line}\n")


@pytest.fixture(scope="module")
def reported(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What import-linter says of the copy with all violations, by the contract's name."""
    source = tmp_path_factory.mktemp("planted")
    for folder in [*root.glob("*/src"), *root.glob("services/*/src")]:
        shutil.copytree(folder, source, dirs_exist_ok=True)
    shutil.copy(root / "pyproject.toml", source)
    for _, module, imports in PLANTED:
        _plant(source, module, f"import {imports}")
    for module in ("worker_agent.app", "pool_manager.adapters.planted"):
        _plant(source, module, "import shared")

    run = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-logo", "--no-cache", "pyproject.toml"],
        cwd=source,
        env={**os.environ, "PYTHONPATH": str(source), "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert run.returncode == 1, run.stdout + run.stderr
    sections = re.split(r"^(.+)\n-{4,}\n", run.stdout, flags=re.MULTILINE)
    return dict(zip(sections[1::2], sections[2::2], strict=True))


@pytest.fixture(scope="module")
def names(root: Path) -> dict[str, str]:
    """The contracts' names by their ids."""
    config = tomllib.loads((root / "pyproject.toml").read_text())
    return {
        contract["id"]: contract["name"] for contract in config["tool"]["importlinter"]["contracts"]
    }


@pytest.mark.parametrize("planted", PLANTED, ids=lambda p: f"{p.contract}:{p.module}:{p.imports}")
def test_a_planted_violation_is_reported(
    planted: Planted, reported: dict[str, str], names: dict[str, str]
) -> None:
    """The contract names the very import that was planted."""
    edge = rf"\b{re.escape(planted.module)} -> {re.escape(planted.imports)}\b"

    assert re.search(edge, reported[names[planted.contract]])


def test_every_contract_has_a_planted_violation(names: dict[str, str]) -> None:
    """A new contract comes with the proof that it catches something."""
    assert set(names) == {planted.contract for planted in PLANTED}


def test_every_package_is_under_the_contracts(root: Path) -> None:
    """A new member that nobody entered in the configuration would be free of all rules."""
    config = tomllib.loads((root / "pyproject.toml").read_text())
    packages = {
        path.parent.name
        for pattern in ("*/src/*/__init__.py", "services/*/src/*/__init__.py")
        for path in root.glob(pattern)
    }

    assert packages == set(config["tool"]["importlinter"]["root_packages"])


def test_every_member_is_type_checked(root: Path) -> None:
    """A member that mypy does not know of would be checked by nobody."""
    config = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["mypy"]
    sources = {
        str(path.relative_to(root))
        for pattern in ("*/src", "services/*/src")
        for path in root.glob(pattern)
    }

    assert set(config["files"]) >= sources
    assert set(config["mypy_path"]) >= sources
