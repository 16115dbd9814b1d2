"""How many threads write a restore's files."""

from __future__ import annotations

import pytest

from checkpointer.adapters.engine.filling import SMALL_BYTES, WRITERS, count_writers


@pytest.mark.parametrize(
    ("files", "content_bytes", "wanted"),
    [
        (28_000, 340_000_000, 1),
        (10, 10 * SMALL_BYTES - 1, 1),
        (10, 10 * SMALL_BYTES, WRITERS),
        (1, 1 << 30, WRITERS),
        (0, 0, WRITERS),
    ],
)
def test_small_files_are_written_by_one_thread(files: int, content_bytes: int, wanted: int) -> None:
    """Large ones by all, since writing them leaves the interpreter free."""
    assert count_writers(files, content_bytes) == wanted
