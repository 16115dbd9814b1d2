"""A cache is believed only where it belongs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from checkpointer.adapters.files.cache import (
    CachedFolder,
    CacheKey,
    boot_id,
    drop_cache,
    load_cache,
    save_cache,
)
from shared.errors import Unavailable

KEY = CacheKey("store", "session", "snapshot", "boot", 1, 2)
FOLDERS = {
    b"": CachedFolder(b"a\0b", b"r" * 104, b"node"),
    b"deep/" * 3000 + b"\xff": CachedFolder(b"", b"", b""),
}


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    """By the same key; paths of any length and bytes. Nobody else may read it."""
    file = tmp_path / "session.cache"
    save_cache(file, KEY, FOLDERS)
    save_cache(file, KEY, FOLDERS)

    assert load_cache(file, KEY) == FOLDERS
    assert file.stat().st_mode & 0o077 == 0
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("field", CacheKey.__struct_fields__)
def test_a_cache_of_anything_else_is_none(tmp_path: Path, field: str) -> None:
    """Another store once made a snapshot of files that were never stored."""
    file = tmp_path / "session.cache"
    save_cache(file, KEY, FOLDERS)
    other = 3 if isinstance(getattr(KEY, field), int) else "other"

    assert load_cache(file, msgspec.structs.replace(KEY, **{field: other})) == {}


@pytest.mark.parametrize("fault", ["absent", "empty", "cut", "a bit", "another magic", "no cache"])
def test_a_broken_cache_is_none(tmp_path: Path, fault: str) -> None:
    """Everything is read then."""
    file = tmp_path / "session.cache"
    save_cache(file, KEY, FOLDERS)
    data = file.read_bytes()
    middle = len(data) // 2
    file.write_bytes(
        {
            "absent": b"",
            "empty": b"",
            "cut": data[:-1],
            "a bit": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
            "another magic": b"X" + data[1:],
            "no cache": b"x" * 100,
        }[fault]
    )
    if fault == "absent":
        drop_cache(file)
        drop_cache(file)

    assert load_cache(file, KEY) == {}


def test_a_machine_without_a_boot_id_has_no_cache(tmp_path: Path) -> None:
    """Times and inodes of another boot mean nothing."""
    file, key = tmp_path / "session.cache", msgspec.structs.replace(KEY, boot="")
    save_cache(file, key, FOLDERS)

    assert load_cache(file, key) == {}
    assert boot_id() == boot_id() != ""


def test_a_full_disk_leaves_no_cache(small_disk: Any) -> None:
    """An old one would belong to an older snapshot anyway."""
    file = small_disk.path / "session.cache"
    save_cache(file, KEY, FOLDERS)
    large = {b"": CachedFolder(b"", b"", bytes(2 << 20))}

    with pytest.raises(Unavailable, match=r"cache session\.cache: No space left on device"):
        save_cache(file, KEY, large)
    assert list(small_disk.path.iterdir()) == []


def test_a_planted_link_is_not_written_through(tmp_path: Path) -> None:
    """Should anybody ever be able to make one there."""
    (tmp_path / "victim").write_text("kept")
    (tmp_path / "session.new").symlink_to("victim")

    with pytest.raises(Unavailable):
        save_cache(tmp_path / "session.cache", KEY, FOLDERS)
    assert (tmp_path / "victim").read_text() == "kept"
