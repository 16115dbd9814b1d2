"""Whether a worker may have what it asks for. Pure."""

from __future__ import annotations

from shared.errors import StaleEpoch
from shared.record import Hold, Record, is_mine
from shared.volumes import TakeAsk


def check_owner(ask: TakeAsk, pod: str, record: Record | None) -> None:
    """Check that a session is the asker's.

    Args:
        ask: what is asked.
        pod: who asks, by the subject, on which the servers check permissions.
        record: the session's.

    Raises:
        StaleEpoch: it is not.
    """
    if record is None or not is_mine(record, Hold(pod, ask.epoch)):
        now = "there is none" if record is None else f"{record.state} at epoch {record.epoch}"
        raise StaleEpoch(
            f"session {ask.session}: {pod} asks for its files under epoch {ask.epoch}, but its record is: {now}"
        )
