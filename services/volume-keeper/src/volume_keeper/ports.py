"""What a keeper's loops need from outside."""

from __future__ import annotations

from typing import Protocol

from shared.record import Record
from volume_keeper.core.places import Taking


class Records(Protocol):
    """Session records."""

    async def read(self, tenant: str, session: str) -> Record | None:
        """Return a session's record, as the leader has it; None: there is none.

        Raises:
            Unavailable, OutcomeUnknown: it can't be read now.
        """
        ...


class Folders(Protocol):
    """The volume. All calls may take as long as its storage does; run them in threads.

    Raises of each: Unavailable, where the storage refuses.
    """

    def make(self, pod: str) -> None:
        """Have a folder for a pod, which nobody else may write to."""
        ...

    def take(self, name: str, taking: Taking) -> bool:
        """Move a session's folder into that of a pod; return whether it was made just now.

        Raises:
            StaleEpoch: another one has it under a newer epoch.
            NotFound: the pod has no folder.
            Unavailable: it is not seen now; ask again.
        """
        ...

    def room(self) -> tuple[int, int]:
        """Return the volume's size, and how much of it is free, bytes."""
        ...

    def sessions(self) -> list[str]:
        """Return the sessions that have a folder, by their names."""
        ...

    def taken_s_ago(self, name: str) -> float:
        """Return for how many seconds nobody has taken a session's folder; 0 where there is none."""
        ...

    def discard(self, name: str) -> None:
        """Put a session's folder where it is removed; one that is gone already is no error."""
        ...

    def clear_pods(self, keep: frozenset[str], older_s: float) -> int:
        """Clear folders of pods away that are not to be kept and have not changed for so long; return how many."""
        ...

    def clear_trash(self) -> None:
        """Remove what has been emptied."""
        ...
