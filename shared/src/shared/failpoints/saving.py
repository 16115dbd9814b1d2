"""The steps at which a checkpointer can lose something. Its own tests drive them: a story of clients hardly meets them."""

from __future__ import annotations

from shared.failpoints.forms import Step

SAVING: tuple[Step, ...] = (
    Step("checkpointer.work.read_with_seq", "read", "save", "read the record: whose session is it"),
    Step("checkpointer.commit_snapshot.read", "read", "save", "read record and workspace head before a save"),
    Step("checkpointer.patient_store.put", "write", "save", "store a pack"),
    Step("checkpointer.commit_snapshot.write", "write", "save", "retain the snapshot: the head by compare-and-set"),
    Step("checkpointer.patient_store.size", "read", "restore", "find the end of a pack"),
    Step("checkpointer.patient_store.get", "read", "restore", "read a part of a pack"),
    Step("checkpointer.work.write", "write", "rescue", "rescuing to queued, with what was saved", wait_s=0.5),
)  # fmt: skip
