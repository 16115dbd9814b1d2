"""What pages point at beyond `docs/`: other documents become pages of the site, files are copied beside them.

So a link is written once, as it leads somewhere in a checkout. A hook of mkdocs (`mkdocs.yml`), after `made`.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks.md",
}
"""Documents outside of `docs/` -> pages. Each lab's is another, under its folder's name."""
HERE = {"README.md": "index.md", "docs/adr": "adr/index.md", "labs/README.md": "labs.md"}
"""What has a page in the site that says the same."""
LINK = re.compile(r"(?<=\]\()([^)\s#]+)(?=#[^)\s]*\)|\))")
WITH_TEXT = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#]+)\)")
ELSEWHERE = re.compile(r"[a-z]+:")


def pages() -> dict[str, str]:
    """Return all documents outside of `docs/` that are pages."""
    readmes = sorted((ROOT / "labs").glob("[0-9]*/README.md"))
    labs = {path.relative_to(ROOT).as_posix(): f"labs/{path.parent.name}.md" for path in readmes}
    return PAGES | labs


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add these pages, and each file that a page points at."""
    known = pages()
    for source, uri in known.items():
        files.append(File.generated(config, uri, content=(ROOT / source).read_text()))
    targets = {
        _target(link, file.src_uri)
        for file in files.documentation_pages()
        for link in LINK.findall(file.content_string)
    }
    wanted = {one for one in targets if one and (_uri(one) or "").startswith("files/")}
    for target in sorted(wanted):
        copied = File.generated(config, f"files/{target}", abs_src_path=str(ROOT / target))
        files.append(copied)
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let each link lead to where its target lies in the site; one that leads nowhere stays, and is told by mkdocs.

    Folders are no pages: of a link to one the text stays.
    """
    del config, files
    here = page.file.src_uri

    def unlink(found: re.Match[str]) -> str:
        target = _target(found[2], here)
        is_folder = target is not None and _uri(target) is None and (ROOT / target).is_dir()
        return found[1] if is_folder else found[0]

    def lead(found: re.Match[str]) -> str:
        target = _target(found[1], here)
        uri = None if target is None else _uri(target)
        return found[1] if uri is None else posixpath.relpath(uri, posixpath.dirname(here) or ".")

    return LINK.sub(lead, WITH_TEXT.sub(unlink, markdown))


def _target(link: str, uri: str) -> str | None:
    """Return which file of the repository a link on a page means; None: it leads elsewhere."""
    if ELSEWHERE.match(link) or link.startswith("/"):
        return None
    written = {page: source for source, page in pages().items()}
    source = written.get(uri, f"docs/{uri}")
    return os.path.normpath(posixpath.join(posixpath.dirname(source), link))


def _uri(target: str) -> str | None:
    """Return where a file of the repository lies in the site; None: nowhere."""
    if target in HERE:
        return HERE[target]
    if (ROOT / target / "README.md").is_file():
        return _uri(f"{target}/README.md")
    if (uri := pages().get(target)) is not None:
        return uri
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    return f"files/{target}" if (ROOT / target).is_file() else None
