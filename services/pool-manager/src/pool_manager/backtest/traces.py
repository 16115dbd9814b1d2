"""Arrivals from files: CSV with a header, or JSONL; and the public traces that are shipped."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from shared.errors import InvalidMessage

SHIPPED = Path(__file__).parent / "traces"
NAMES = ("azure-conv", "azure-code", "servegen", "mooncake")
"""What is shipped; licences and what was changed: `traces/README.md`."""
COLUMNS = {"t_s": 1.0, "t_ms": 1e-3, "time_s": 1.0, "time_ms": 1e-3, "timestamp": 1.0}
"""Column that holds the time of an arrival -> seconds of its unit. A `timestamp` may also be a date with a time."""
WINDOW_S = 600
"""Of a row of rates."""
ROWS_MAX = 20_000_000


class RateRow(msgspec.Struct, frozen=True):
    """The arrivals of one client in one window, told by their rate and the form of their gaps."""

    t_s: float
    client: str
    rate_per_s: float
    pattern: str
    """`Gamma` or `Weibull`."""
    shape: float


def read_arrivals(path: Path) -> list[float]:
    """Return when something arrived, seconds from the first, ascending.

    Raises:
        InvalidMessage: the file holds none, or says their times in no way that is known; names the line.
    """
    found = []
    for number, row in enumerate(_rows(path), start=1):
        if number > ROWS_MAX:
            raise InvalidMessage(f"{path.name}: more than {ROWS_MAX} rows")
        found.append(_time_of(row, f"{path.name}, row {number}"))
    if len(found) < 2:
        raise InvalidMessage(f"{path.name}: at least two arrivals expected, found {len(found)}")
    found.sort()
    return [at - found[0] for at in found]


def read_rates(path: Path) -> list[RateRow] | None:
    """Return the rows of a file that holds rates instead of arrivals; None: it holds arrivals."""
    rows = _rows(path)
    first = next(rows, None)
    if first is None or "rate_per_s" not in first:
        return None
    try:
        return [msgspec.convert(row, RateRow, strict=False) for row in (first, *rows)]
    except msgspec.ValidationError as exc:
        raise InvalidMessage(f"{path.name}: {exc}") from exc


def shipped(name: str) -> Path:
    """Return the file of a shipped trace."""
    return SHIPPED / f"{name}.csv.gz"


def _rows(path: Path) -> Iterator[dict[str, object]]:
    plain = path.name.removesuffix(".gz")
    with gzip.open(path, "rt") if plain != path.name else path.open() as lines:
        if plain.endswith((".jsonl", ".ndjson")):
            for line in lines:
                if line.strip():
                    yield _object(line, path)
        else:
            for row in csv.DictReader(lines):
                yield {str(key).strip().lower(): value for key, value in row.items()}


def _object(line: str, path: Path) -> dict[str, object]:
    try:
        return msgspec.json.decode(line, type=dict[str, object])
    except msgspec.MsgspecError as exc:
        raise InvalidMessage(f"{path.name}: a JSON object on each line expected: {exc}") from exc


def _time_of(row: dict[str, object], where: str) -> float:
    for name, unit_s in COLUMNS.items():
        value = row.get(name)
        if value is None or value == "":
            continue
        try:
            return float(str(value)) * unit_s
        except ValueError:
            pass
        try:
            # More digits than microseconds are of no use here, and not understood by all versions of Python.
            return datetime.fromisoformat(str(value)[:26]).timestamp()
        except ValueError as exc:
            raise InvalidMessage(
                f"{where}: {name}: a number or a date expected, got {value!r}"
            ) from exc
    raise InvalidMessage(f"{where}: a column {', '.join(COLUMNS)} expected")
