"""The history as a file: one JSON line for each row, appended at once, so that it survives the crash of whoever writes it."""

from __future__ import annotations

import lzma
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from chaos.core.history import History, gather
from chaos.core.rows import AnyRow, of_line, to_line

HISTORY = "history.jsonl"
COMPRESSED = ".xz"
"""A history that is kept for others to judge."""
DECIMALS = 6


class HistoryFile:
    """Appends rows (see `Notes`)."""

    def __init__(self, path: Path) -> None:
        """Begin a new file.

        Raises:
            FileExistsError: a history is never overwritten.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o644)
        self._began = time.monotonic()
        self.rows = 0

    def __enter__(self) -> Self:
        """Return the file."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it; the disk has it then."""
        os.fsync(self._descriptor)
        os.close(self._descriptor)

    def begin(self) -> int:
        """Set the clock to 0; return the wall clock of that moment, milliseconds since 1970."""
        self._began = time.monotonic()
        return int(time.time() * 1000)

    def now(self) -> float:
        """Return seconds since the run began, to the microsecond."""
        return round(time.monotonic() - self._began, DECIMALS)

    def write(self, row: AnyRow) -> None:
        """Append a row by one write, without a buffer of ours."""
        line = to_line(row)
        written = os.write(self._descriptor, line)
        while written < len(line):  # a signal or a full disk came between
            written += os.write(self._descriptor, line[written:])
        self.rows += 1


def read_rows(path: Path) -> tuple[list[AnyRow], bool]:
    """Return a file's rows, and whether its last line is torn, which is left out.

    Raises:
        ValueError: another line is no row (its number is named).
        OSError: it can't be read.
    """
    rows: list[AnyRow] = []
    for number, line in enumerate(_lines(path), 1):
        if not line.endswith(b"\n"):
            return rows, True
        try:
            rows.append(of_line(line))
        except ValueError as exc:
            raise ValueError(f"{path}, line {number}: {exc}") from exc
    return rows, False


def read_history(path: Path) -> History:
    """Return the history in a file; see `read_rows`."""
    rows, is_torn = read_rows(path)
    return gather(rows, is_torn=is_torn)


def history_in(folder: Path) -> Path:
    """Return where a folder has its history, compressed or not; where it should be, if it has none."""
    plain = folder / HISTORY
    packed = plain.with_name(HISTORY + COMPRESSED)
    return packed if packed.exists() and not plain.exists() else plain


def _lines(path: Path) -> Iterator[bytes]:
    if path.suffix != COMPRESSED:
        with path.open("rb") as file:
            yield from file
        return
    try:
        with lzma.open(path, "rb") as packed:
            yield from packed
    except (lzma.LZMAError, EOFError) as exc:
        raise ValueError(f"{path} is damaged: {exc}") from exc
