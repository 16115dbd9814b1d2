"""What the checkpointer's core refuses."""

from __future__ import annotations

from shared.errors import Rejected


class Damaged(Rejected):
    """Stored bytes are not what was written: a hash, a magic number, a count or a name is wrong. Names what and where."""

    code = "damaged"
