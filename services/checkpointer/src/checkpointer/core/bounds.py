"""What a decoder accepts: every size and count of stored bytes is checked before anything is allocated for it.

A snapshot was made from files that an agent wrote, and lies in a store that others may reach: none of its numbers is
believed. What a *user* can meet while saving (entries, sizes, depth) stands in `shared.limits`.
"""

from __future__ import annotations

from typing import Final

ID_BYTES: Final = 32
"""An id: blake3 of the raw bytes."""
FRAME_RAW_BYTES: Final = 256 * 1024
"""A frame is closed once it holds so many raw bytes."""
FRAME_RAW_BYTES_MAX: Final = 4 * 1024 * 1024
"""Raw bytes of one frame that a decoder unpacks."""
ZSTD_WINDOW_BYTES_MAX: Final = 8 * 1024 * 1024
"""Window that a compressed frame may ask for."""
PACK_BYTES_MAX: Final = 64 * 1024 * 1024
"""One pack. Writers close it at the store's `pack_bytes`."""
FOOTER_RAW_BYTES_MAX: Final = 16 * 1024 * 1024
"""The table of contents of one pack, unpacked."""
PACK_FRAMES_MAX: Final = 65_536
PACK_CHUNKS_MAX: Final = 524_288
INDEX_RAW_BYTES_MAX: Final = 512 * 1024 * 1024
"""One index object, unpacked: 45 bytes for each chunk."""
NODE_BYTES_MAX: Final = 256 * 1024 * 1024
"""One directory's encoded entries, in all their chunks."""
NODE_ENTRIES_MAX: Final = 500_000
TREE_DEPTH_MAX: Final = 1_024
TREE_ENTRIES_MAX: Final = 2_000_000
SNAPSHOT_BYTES_MAX: Final = 4 * 1024 * 1024
"""A snapshot's body."""
SNAPSHOT_PACKS_MAX: Final = 8_192
LIST_CHUNKS: Final = 1_024
"""Chunks that an entry, and again each list node, names; more go to list nodes, level by level."""
LIST_LEVELS_MAX: Final = 3
NAME_BYTES_MAX: Final = 255
XATTRS_BYTES_MAX: Final = 64 * 1024
FILE_BYTES_MAX: Final = 1 << 40
"""Declared size of one file; a sparse one may be larger than what is saved of it."""
