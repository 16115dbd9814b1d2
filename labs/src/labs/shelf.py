"""Where the labs are, and what belongs to each."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from labs.frame import CannotRun, Figures, Need

ROOT = Path(__file__).parents[2]
"""The labs come with the repository; an installed package has none."""
NAME = re.compile(r"(\d\d)-[a-z-]+")
TITLE = re.compile(r"^# Lab \d+: (.+)$", re.MULTILINE)


class Lab(NamedTuple):
    """One lab."""

    number: int
    folder: Path

    @property
    def title(self) -> str:
        """As its README says."""
        found = TITLE.search(self.readme.read_text(encoding="utf-8"))
        return found[1] if found else self.folder.name

    @property
    def readme(self) -> Path:
        """What is read."""
        return self.folder / "README.md"

    @property
    def run_file(self) -> Path:
        """The figures of the run that the README shows."""
        return self.folder / "run.json"

    @property
    def picture_file(self) -> Path:
        """The picture of that run."""
        return self.folder / "run.svg"

    def program(self, which: str) -> Path:
        """Return `wall` or `answer`."""
        return self.folder / f"{which}.py"

    def needs(self) -> Sequence[Need]:
        """Return what its check asks for."""
        found: Sequence[Need] = self._load("check").NEEDS
        return found

    def draw(self, wall: Figures, answer: Figures) -> str:
        """Return its picture, an SVG document."""
        draw: Callable[[Figures, Figures], str] = self._load("picture").draw
        return draw(wall, answer)

    def tell(self, wall: Figures, answer: Figures) -> str:
        """Return what its README tells besides the figures, such as a table of its own; empty: nothing."""
        tell: Callable[[Figures, Figures], str] | None = getattr(
            self._load("picture"), "tell", None
        )
        return "" if tell is None else tell(wall, answer)

    def _load(self, name: str) -> ModuleType:
        """Load a module of the folder; folders with a number and a dash are no packages."""
        path = self.folder / f"{name}.py"
        spec = importlib.util.spec_from_file_location(f"lab_{self.number}_{name}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def labs() -> list[Lab]:
    """Return the labs, in order.

    Raises:
        CannotRun: there are none here.
    """
    found = [
        Lab(int(match[1]), path)
        for path in sorted(ROOT.iterdir())
        if (match := NAME.fullmatch(path.name)) and (path / "check.py").is_file()
    ]
    if not found:
        raise CannotRun("the labs come with the repository: run this from a checkout of it")
    return found


def lab(number: int) -> Lab:
    """Return one.

    Raises:
        CannotRun: there is no such lab; says which there are.
    """
    there = labs()
    for one in there:
        if one.number == number:
            return one
    raise CannotRun(f"there is no lab {number}: {', '.join(str(one.number) for one in there)}")
