"""What a node finds out about its machine before it takes pods; `doctor` asks it the same."""

from __future__ import annotations

from shared.messages import Message


class MachineView(Message, frozen=True, kw_only=True):
    """What sandboxes on this machine can have."""

    isolation: dict[str, str]
    """Class -> empty if it is here, else why not."""
    controllers: tuple[str, ...]
    """Control groups that each pod gets: of memory, pids and cpu."""
    missing: dict[str, str]
    """Controller -> why it cannot be used."""
