"""Keeps a run's report where others find it: small enough for a repository."""

from __future__ import annotations

import hashlib
import lzma
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from chaos.adapters.history_file import COMPRESSED, history_in
from chaos.core.report.data import Findings
from chaos.core.report.leaflet import KeptHistory, leaflet
from chaos.core.report.page import page
from chaos.core.report.pictures import pictures

BLOCK_BYTES = 1 << 20


def keep(found: Findings, folder: Path, into: Path, history_bytes_max: int) -> list[Path]:
    """Write report, pictures, data, the history (compressed) and a page on all of it into a folder; return its files.

    Args:
        found: what came of the run.
        folder: of the run; its history is read.
        into: a new folder.
        history_bytes_max: a history that is larger, compressed, is left out, and the page says so.

    Raises:
        FileExistsError: there is something already.
        OSError: it can't be written, or the history not be read.
    """
    into.mkdir(parents=True)
    drawn = pictures(found)
    history = _keep_history(history_in(folder), into, history_bytes_max)
    (into / "README.md").write_text(leaflet(found, drawn, history), encoding="utf-8")
    (into / "report.html").write_text(page(found), encoding="utf-8")
    (into / "report.json").write_bytes(msgspec.json.encode(found) + b"\n")
    for picture in drawn:
        (into / f"{picture.name}.svg").write_text(picture.to_file(), encoding="utf-8")
    return sorted(into.iterdir())


def keep_table(folder: Path, into: Path, names: Sequence[str]) -> list[Path]:
    """Write what came of faults done alone into a folder: these files, not the thirty runs; return them.

    Args:
        folder: of the runs.
        into: a new folder.
        names: of the files.

    Raises:
        FileExistsError: there is something already.
        OSError: it can't be written.
    """
    into.mkdir(parents=True)
    return [Path(shutil.copyfile(folder / name, into / name)) for name in names]


def _keep_history(path: Path, into: Path, bytes_max: int) -> KeptHistory:
    kept = into / f"history.jsonl{COMPRESSED}"
    digest, rows = hashlib.sha256(), 0
    opened = lzma.open if path.suffix == COMPRESSED else open
    with opened(path, "rb") as source, lzma.open(kept, "wb") as target:
        while block := source.read(BLOCK_BYTES):
            digest.update(block)
            rows += block.count(b"\n")
            target.write(block)
    size_bytes = kept.stat().st_size
    if size_bytes > bytes_max:
        kept.unlink()
    return KeptHistory(
        name=kept.name,
        rows=rows,
        size_bytes=size_bytes,
        sha256=digest.hexdigest(),
        is_kept=kept.exists(),
    )
