"""Content of any size through the object store: chunk by chunk, a bounded window of them on the way, checked by digest.

An object is immutable and complete by its reference alone: id, size, digest, size of its chunks. Half an object that
somebody left is named by nobody and goes by its age. Of a chunk that is tried again one copy is stored: it has a message
id, and its subject takes one message for ever.
"""

from shared.objects.chunks import BusChunks, Chunks
from shared.objects.read import read_chunks, read_object
from shared.objects.write import ObjectWriter, drop_object, write_chunks, write_object

__all__ = [
    "BusChunks",
    "Chunks",
    "ObjectWriter",
    "drop_object",
    "read_chunks",
    "read_object",
    "write_chunks",
    "write_object",
]
