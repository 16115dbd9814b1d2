"""requirements.lock holds exactly what the pyproject files ask for, with hashes and without an address."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PIN = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+)(?: ; (?P<marker>[^\\]*))?", re.MULTILINE
)


@pytest.fixture(scope="module")
def projects(root: Path) -> list[dict[str, Any]]:
    """The root's pyproject.toml and each member's, parsed."""
    paths = [
        root / "pyproject.toml",
        *root.glob("*/pyproject.toml"),
        *root.glob("services/*/pyproject.toml"),
    ]
    return [tomllib.loads(path.read_text()) for path in paths]


@pytest.fixture(scope="module")
def lock(texts: dict[str, str]) -> str:
    """The text of requirements.lock."""
    return texts["requirements.lock"]


@pytest.fixture(scope="module")
def pins(lock: str) -> dict[str, Requirement]:
    """What the lock pins, by name."""
    return {
        canonicalize_name(match["name"]): Requirement(match[0].strip())
        for match in PIN.finditer(lock)
    }


@pytest.fixture(scope="module")
def asked(projects: list[dict[str, Any]]) -> list[Requirement]:
    """What the pyproject files ask for: dependencies, extras and groups, without our own members."""
    own = {canonicalize_name(project["project"]["name"]) for project in projects}
    lines = []
    for project in projects:
        lines += project["project"].get("dependencies", [])
        for extra in project["project"].get("optional-dependencies", {}).values():
            lines += extra
        for group in project.get("dependency-groups", {}).values():
            lines += [line for line in group if isinstance(line, str)]
    return [
        requirement
        for requirement in map(Requirement, lines)
        if canonicalize_name(requirement.name) not in own
    ]


def _requires(name: str) -> list[str]:
    """Return what an installed package asks for; nothing when it is not installed: then the lock lacks it."""
    try:
        return metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return []


def _needed_here(asked: list[Requirement]) -> set[str]:
    """Return the names of all that `asked` leads to on this machine, by what is installed."""
    todo, seen = list(asked), set()
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        key = (name, frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        for line in _requires(name):
            deeper = Requirement(line)
            extras = requirement.extras or {""}
            if not deeper.marker or any(deeper.marker.evaluate({"extra": e}) for e in extras):
                todo.append(deeper)
    return {name for name, _ in seen}


def test_the_lock_satisfies_every_pyproject(
    asked: list[Requirement], pins: dict[str, Requirement]
) -> None:
    """A dependency that was added or raised without `./dev lock` shows here."""
    unmet = [
        str(requirement)
        for requirement in asked
        if (pin := pins.get(canonicalize_name(requirement.name))) is None
        or not all(requirement.specifier.contains(spec.version) for spec in pin.specifier)
    ]

    assert unmet == []


def test_the_lock_pins_nothing_that_nobody_asks_for(
    asked: list[Requirement], pins: dict[str, Requirement]
) -> None:
    """A dependency that was removed without `./dev lock` shows here."""
    for_this_machine = {
        name for name, pin in pins.items() if pin.marker is None or pin.marker.evaluate()
    }

    assert for_this_machine == _needed_here(asked)


def test_every_pin_has_hashes_and_no_address(lock: str) -> None:
    """Whatever registry serves a file, it is the file that was locked."""
    blocks = re.split(r"\n(?=\S)", lock.strip())

    assert [block.split()[0] for block in blocks if "--hash=sha256:" not in block] == []
    assert "://" not in lock
    assert "--index" not in lock


def test_one_version_of_uv_is_named_everywhere(
    projects: list[dict[str, Any]], texts: dict[str, str]
) -> None:
    """`./dev` installs the version that the workspace requires and that the members build with."""
    required = projects[0]["tool"]["uv"]["required-version"]
    builds = {project["build-system"]["requires"][0] for project in projects[1:]}

    assert builds == {f"uv_build{required}"}
    assert f"\nuv_version={required.removeprefix('==')}\n" in texts["dev"]
