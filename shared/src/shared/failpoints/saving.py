"""The steps at which a checkpointer can lose something, and those of forks and rescues, which it carries out."""

from __future__ import annotations

from shared.failpoints.forms import Step

_DIES = ("worker.run_task.event:crash_after",)
"""A worker dies in the middle of its task."""

SAVING: tuple[Step, ...] = (
    # ------------------------------------------------------------------------------------------------------ worker
    Step("worker.keep_files.save", "read", "save", "have the files saved that a task left behind"),
    Step("worker.keep_files.mark", "note", "save", "say beside the workspace what is in it"),
    Step("worker.keep_files.unmark", "note", "roll back", "say that it is of no use", story="rolled_back"),
    Step("worker.keep_files.retain", "read", "roll back", "have a snapshot kept that is gone back to", story="rolled_back"),
    Step("worker.restore.restore", "read", "restore", "have the workspace filled"),
    # ------------------------------------------------------------------------------------------------ pool-manager
    Step("pool_manager.rescue.look", "read", "rescue", "see whether a dead pod's workspace is whole", after=_DIES, story="later"),
    Step("pool_manager.rescue.entry", "read", "rescue", "read the task in hand: what becomes of it", after=_DIES, story="resumed"),
    Step("pool_manager.rescue.payload", "read", "rescue", "the same of a first task", after=_DIES, story="resumed_first"),
    Step(
        "pool_manager.rescue.rescue", "write", "rescue", "have a dead pod's files saved", wait_s=1.5, after=_DIES,
        story="resumed",
    ),
    Step("pool_manager.rescue.delete", "write", "rescue", "give the dead pod up", wait_s=2.0, after=_DIES, story="resumed"),
    Step("pool_manager.fork.read", "read", "fork", "read the fork's record, and its parent's", story="forked"),
    Step("pool_manager.fork.head", "read", "fork", "find the snapshot that is meant", story="forked"),
    Step("pool_manager.fork.write", "write", "fork", "the fork's record", wait_s=0.5, story="forked"),
    Step("pool_manager.fork.keep", "write", "fork", "have the snapshot pinned", story="forked"),
    Step("pool_manager.fork.end", "write", "fork", "forking to idle, with the fork's result", wait_s=0.5, story="forked"),
    Step("pool_manager.snapshots.read", "read", "ask", "read the record of a session whose snapshots are asked for", story="forked"),
    Step("pool_manager.snapshots.head", "read", "ask", "read its workspace head", story="forked"),
    Step("pool_manager.snapshots.keep", "write", "ask", "have a snapshot named, or compared", story="forked"),
    # ------------------------------------------------------------------------------------------------ checkpointer
    Step("checkpointer.work.read_with_seq", "read", "save", "read the record: whose session is it"),
    Step("checkpointer.commit_snapshot.read", "read", "save", "read record and workspace head before a save"),
    Step("checkpointer.patient_store.put", "write", "save", "store a pack"),
    Step("checkpointer.commit_snapshot.write", "write", "save", "retain the snapshot: the head by compare-and-set"),
    Step("checkpointer.patient_store.size", "read", "restore", "find the end of a pack"),
    Step("checkpointer.patient_store.get", "read", "restore", "read a part of a pack"),
    Step(
        "checkpointer.work.write", "write", "rescue", "rescuing to queued, with what was saved", wait_s=0.5, after=_DIES,
        story="resumed",
    ),
    Step("checkpointer.keep.read", "read", "fork", "read the parent's workspace head", story="forked"),
    Step("checkpointer.keep.write", "write", "fork", "name, pin: the head by compare-and-set", story="forked"),
    Step("checkpointer.look_after.list", "scan", "delete", "look at all workspace heads", story="deleted", wide=True),
    Step("checkpointer.look_after.read", "read", "delete", "see whether there is something to delete", story="deleted"),
    Step("checkpointer.patient_store.list", "scan", "collect", "list the packs of a session", story="deleted"),
    Step("checkpointer.collect_garbage.read", "read", "collect", "read record and head: what is needed", story="deleted"),
    Step(
        "checkpointer.collect_garbage.write", "write", "collect", "let snapshots go: the head by compare-and-set",
        story="deleted collected",
    ),
    Step("checkpointer.patient_store.delete", "write", "collect", "remove a pack", story="deleted"),
    Step("checkpointer.delete_session.read", "read", "delete", "read the head of a deleted fork's parent", story="deleted"),
    Step("checkpointer.delete_session.write", "write", "delete", "let a pin go", story="deleted"),
    Step("checkpointer.delete_session.remove", "write", "delete", "remove a workspace head", story="deleted"),
)  # fmt: skip
