"""Files and output as tasks and results name them: entries of a listing, what was written, objects by reference."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shared import limits
from shared.errors import InvalidMessage

# Behind `$`: Python's matches before a line end, too, and an id goes into a subject.
ObjectId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{7,63}$(?!\s)")]
Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\s)")]


class ObjectRef(msgspec.Struct, frozen=True, kw_only=True):
    """Content that lies in the object store: immutable, and named completely, so that a reader notices any fault."""

    id: ObjectId
    """Made by whoever stored it, never used twice."""
    size_bytes: Annotated[int, Meta(ge=0, le=limits.OBJECT_BYTES_MAX)]
    sha256: Sha256
    """Digest of the whole content, hexadecimal."""
    chunk_bytes: Annotated[int, Meta(ge=1, le=limits.OBJECT_CHUNK_BYTES_MAX)]
    """Size of its chunks; the last one may be shorter."""

    @property
    def chunks(self) -> int:
        """Number of its chunks."""
        return -(-self.size_bytes // self.chunk_bytes)

    def chunk_size(self, number: int) -> int:
        """Return the bytes of one chunk."""
        return min(self.chunk_bytes, self.size_bytes - number * self.chunk_bytes)

    def check(self, field: str) -> None:
        """Check what types cannot: that its chunks are not too many.

        Raises:
            InvalidMessage: names `field`.
        """
        if self.chunks > limits.OBJECT_CHUNKS_MAX:
            raise InvalidMessage(
                f"{field}: {self.chunks} chunks of {self.chunk_bytes} bytes, at most {limits.OBJECT_CHUNKS_MAX}"
            )


class OutputFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file of the workspace that was put into the object store."""

    path: str
    object: ObjectRef
    mode: int = 0


class Transfer(msgspec.Struct, frozen=True, kw_only=True):
    """How far a file has come on its way between object store and workspace."""

    path: str
    direction: Literal["in", "out"]
    """`in`: into the workspace."""
    done_bytes: int
    total_bytes: int


class FileEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of a listing."""

    name: str
    type: str
    size: int = 0
    """Bytes."""
    mtime_ms: int = 0
    mode: int = 0


class Stream(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a task wrote to stdout or stderr."""

    text: str = ""
    """The newest part, at most `limits.RESULT_OUTPUT_BYTES_MAX` bytes; bytes that are not UTF-8 are replaced."""
    size: int = 0
    """Bytes written in all."""
    truncated: bool = False
    """True where `text` does not hold everything."""
