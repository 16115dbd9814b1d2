"""Where rows of the history go, and the injector's clock."""

from __future__ import annotations

from typing import Protocol

from chaos.core.rows import AnyRow


class Notes(Protocol):
    """Takes the history down."""

    def now(self) -> float:
        """Return the injector's clock: seconds since the run began, monotonic."""
        ...

    def write(self, row: AnyRow) -> None:
        """Append a row; it is with the kernel when this returns, so it survives this process."""
        ...
