"""The documents as a site: built without a warning, with no dead link, and nothing in it that is fetched from elsewhere."""

from __future__ import annotations

import html.parser
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote

import pytest

from agent_sandbox.cli.root import leaves, root
from gateway.adapters.http.site import ROUTES

ROOT = Path(__file__).parents[2]
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""Elements that make a browser fetch something, and where from."""
BUILD_S = 230
"""Longest build of the site: seconds on a quiet machine, many more on a busy one."""
NO_NETWORK = dict.fromkeys(("http_proxy", "https_proxy", "ALL_PROXY"), "http://127.0.0.1:9")

pytestmark = pytest.mark.timeout(240, func_only=True)  # whichever test is first has it built


class Reader(html.parser.HTMLParser):
    """What a page loads, where it leads, and what can be led to in it."""

    def __init__(self, page: Path) -> None:
        """Read it."""
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one element."""
        given = dict(attrs)
        self.anchors |= {name for key in ("id", "name") if (name := given.get(key))}
        if tag in LOADED and (target := given.get(LOADED[tag])):
            self.loads.append(target)
        if tag == "a" and (target := given.get("href")):
            self.links.append(target)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `./dev docs` does."""
    folder = tmp_path_factory.mktemp("site")
    command = ["build", "-q", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        [Path(sys.executable).parent / "mkdocs", *command],
        cwd=ROOT,
        env={**os.environ, **NO_NETWORK},
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Reader]:
    """All of its pages, read."""
    return {path: Reader(path) for path in site.rglob("*.html")}


def dead(site: Path, pages: dict[Path, Reader]) -> Iterator[str]:
    """Yield each link and each part of a page that is not there."""
    for path, page in pages.items():
        for link in page.links + page.loads:
            name, _, anchor = unquote(link).partition("#")
            target = (path.parent / name).resolve() if name else path
            if re.match(r"[a-z]+:", link):
                continue
            if not target.exists() or (anchor and anchor not in pages[target].anchors):
                yield f"{path.relative_to(site)}: {link}"


def test_every_link_and_every_picture_is_there(site: Path, pages: dict[Path, Reader]) -> None:
    """Pages, headings, files, scripts, styles."""
    assert len(pages) > 60
    pages.pop(site / "404.html")  # its links begin at the root of wherever the site is served
    pages.pop(site / "adr/template.html")  # names records that are yet to be written
    assert list(dead(site, pages)) == []


def test_nothing_is_fetched_from_elsewhere(site: Path, pages: dict[Path, Reader]) -> None:
    """No font, script or counter: it works in a closed network, and tells nobody who reads."""
    loads = {load for page in pages.values() for load in page.loads}
    styles = "".join(path.read_text() for path in site.rglob("*.css"))

    assert [load for load in loads if re.match(r"(https?:)?//", load)] == []
    assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)]*", styles) == []


def test_every_command_and_every_route_has_its_place(site: Path) -> None:
    """References are made from the code: none is left out."""
    commands = (site / "cli-reference.html").read_text()
    routes = (site / "http-reference.html").read_text()
    paths = {path for route in ROUTES if hasattr(route, "http_methods") for path in route.paths}

    missing = [name for name, _ in leaves(root) if f">{name}<" not in commands]
    assert missing == []
    written = {re.sub(r"{(\w+):\w+}", r"{\1}", path) for path in paths}
    assert [path for path in written if f" {path}</code>" not in routes] == []


def test_figures_of_recovery_come_from_kept_results(site: Path) -> None:
    """With their targets and meanings."""
    page = (site / "recovery.html").read_text()

    for name in ("recovery", "soak", "queue-failover", "resume"):
        assert list((ROOT / "benchmarks/results").glob(f"{name}-*.json"))
        assert f"./dev bench {name}<" in page
    assert re.search(r"recover_p95_s.*?</td>\s*<td>[\d., /]+</td>\s*<td>.*?≤", page)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """What makes pages, in a checkout that is empty."""
    spec = importlib.util.spec_from_file_location("made", ROOT / "docs/site/made.py")
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return module


def test_labs_are_listed_as_they_are(made: Any, tmp_path: Path) -> None:
    """With none, and with some, in their order."""
    assert made.labs() == "There is none in this version yet.\n"
    for name in ("02-on-demand", "01-single-pod"):
        (tmp_path / "labs" / name).mkdir(parents=True)
        (tmp_path / "labs" / name / "README.md").write_text(f"# Lab {name[:2]}\nText.\n")

    assert made.labs().splitlines() == [
        "- [Lab 01](../labs/01-single-pod/README.md)",
        "- [Lab 02](../labs/02-on-demand/README.md)",
    ]
