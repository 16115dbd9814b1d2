"""What may be asked of a checkpointer, by whom: decided by the subject, on which the servers check permissions."""

from __future__ import annotations

from typing import Final

from shared.errors import Conflict, Forbidden, InvalidMessage, NotFound, StaleEpoch
from shared.record import Hold, Record, is_mine
from shared.workspace import CheckpointAsk, Mark

RESCUE: Final = "rescue"
"""Last token of the subject on which pool-managers ask. Pods' names have dashes: no worker is called so."""


def rescuer(node: str) -> str:
    """Return the name under which a node's checkpointer owns a session while it rescues it."""
    return f"ckpt-{node}"


def check_asker(ask: CheckpointAsk, asker: str) -> None:
    """Check that somebody may ask this at all.

    Args:
        ask: what is asked.
        asker: last token of the subject: a worker's name, or `rescue`.

    Raises:
        Forbidden: a worker asks about another pod, or about a rescue.
        InvalidMessage: it makes no sense.
    """
    if (ask.op in ("rescue", "look")) != (asker == RESCUE):
        raise Forbidden(f"{ask.op} is not for {asker} to ask")
    if asker not in (RESCUE, ask.pod):
        raise Forbidden(f"worker {asker} asked about pod {ask.pod}")
    if ask.op == "restore" and ask.snapshot is None:
        raise InvalidMessage("restore: no snapshot is named")
    if ask.op == "retain" and ask.wanted is None:
        raise InvalidMessage("retain: no snapshot is wanted")


def check_same(ask: CheckpointAsk, before: CheckpointAsk) -> None:
    """Check that who asks again asks for the same.

    Raises:
        Conflict: another job has that id.
    """
    if _sense(ask) != _sense(before):
        raise Conflict(f"job {ask.job} is another one: {before.op} of session {before.session}")


def check_mark(ask: CheckpointAsk, mark: Mark | None) -> Mark:
    """Return the mark of a dead pod's workspace, having checked that it is what the session goes on with.

    Args:
        ask: a rescue, under the epoch that followed the dead owner's, or a look whether it would be of use; a look is
            about no task.
        mark: what the worker said last of its workspace; None: nothing.

    Raises:
        NotFound: it is not: restored in part only, of another session, or with effects of a task that has another's
            result.
    """
    if mark is None or (mark.session, mark.epoch) != (ask.session, ask.epoch - 1):
        raise NotFound(f"pod {ask.pod}: its workspace is not session {ask.session}'s, or not whole")
    if mark.task not in ("", ask.task):
        raise NotFound(f"pod {ask.pod}: its workspace holds task {mark.task} in part")
    return mark


def _sense(ask: CheckpointAsk) -> tuple[object, ...]:
    return (ask.op, ask.tenant, ask.session, ask.epoch, ask.pod)


def check_record(ask: CheckpointAsk, record: Record | None, node: str) -> Record:
    """Return the record, having checked that the session is the asker's, or was given to this node's rescue.

    Raises:
        StaleEpoch: it is not: another epoch, another owner, or the session has ended.
        Conflict: it is owned, and not in the state that this needs.
    """
    owner = rescuer(node) if ask.op == "rescue" else ask.pod
    hold = Hold(owner, ask.epoch)
    if record is None or not is_mine(record, hold):
        now = "there is none" if record is None else f"{record.state} at epoch {record.epoch}"
        raise StaleEpoch(
            f"session {ask.session}: {ask.op} for {owner} under epoch {ask.epoch}, but its record is: {now}"
        )
    wanted = "rescuing" if ask.op == "rescue" else "running"
    if record.state != wanted:
        raise Conflict(f"session {ask.session}: {ask.op} needs {wanted}, it is {record.state}")
    return record
