"""What the checkpointer's core refuses."""

from __future__ import annotations

from shared.errors import Damaged

__all__ = ["Damaged"]
