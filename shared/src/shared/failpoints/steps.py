"""The list of all failpoints: every step of client, worker and pool-manager at which a fault can be placed.

A step is one call of a port: `<service>.<loop>.<method>`, where the loop is the module that calls it. `@word` narrows
it to calls about something so called: `worker.commit.write@idle` is the release, a write of a record in that state.
"""

from __future__ import annotations

from shared.failpoints.forms import FORMS, KINDS, Form, Kind, Step
from shared.failpoints.saving import SAVING

__all__ = [
    "BY_NAME", "FORMS", "KINDS", "NOT_PLACED", "PLACES", "STEPS", "Form", "Kind", "Step",
]  # fmt: skip

_DIES = ("worker.run_task.event:crash_after",)
"""A worker dies in the middle of its task."""
_UNSURE = ("worker.commit.commit:request_lost",)
"""A commit that was not stored and not answered."""
_UNHEARD = ("worker.wait_for_bell.pull:answer_lost",)
"""A message that is delivered again makes no sound."""
_TOKEN_LOST = ("pool_manager.wake.send_token:request_lost",)

STEPS: tuple[Step, ...] = (
    # ------------------------------------------------------------------------------------------------------ client
    Step("client.bus.subscribe", "join", "publish", "listen for results before the publish"),
    Step("client.bus.publish_acked@task", "write", "publish", "publish the first task of a session"),
    Step("client.bus.publish_acked@session", "write", "publish", "publish the next task"),
    Step("client.bus.read_result", "read", "publish", "read a result that was not heard"),
    Step("client.bus.request@cancel", "write", "cancel", "ask for a task's end", wait_s=3.0),
    # ------------------------------------------------------------------------------------------------------ worker
    Step("worker.wait_for_bell.listen", "join", "pull", "join the group of idle workers"),
    Step("worker.wait_for_bell.pull", "pull", "pull", "take a message from a lane"),
    Step("worker.wait_for_bell.leave", "say", "pull", "leave the group of idle workers"),
    Step("worker.wait_for_bell.ring", "say", "pull", "pass a bell on", story="crowd"),
    Step("worker.claim.create", "write", "create", "make record and payload of a plain message"),
    Step("worker.claim.read", "read", "claim", "read the record that a token names"),
    Step("worker.claim.write", "write", "claim", "queued to running under the next epoch"),
    Step("worker.claim.ack", "say", "ack", "take the message off its lane"),
    Step(
        "worker.claim.give_back", "say", "ack", "give the message back",
        after=("worker.claim.create:request_lost",),
    ),
    Step("worker.hold_session.payload", "read", "run", "read the first task's body", after=_DIES),
    Step("worker.hold_session.next_entry@running", "read", "run", "read the next task of the inbox"),
    Step("worker.hold_session.result_exists", "read", "run", "see whether the task has its result"),
    Step("worker.run_task.run", "run", "run", "do what the task asks"),
    Step("worker.run_task.event", "say", "run", "tell that the task started: in the middle of the run"),
    Step("worker.run_task.output", "say", "run", "tell its output: in the middle of the run"),
    Step("worker.run_task.stop", "local", "cancel", "end the user code of a cancelled task"),
    Step("worker.run_task.bury", "write", "run", "keep an unreadable body as a dead letter"),
    Step("worker.commit.commit", "write", "commit", "result and record in one batch", story="plain kept"),
    Step("worker.commit.read", "read", "commit", "read the record after an unsure commit", after=_UNSURE),
    Step("worker.commit.result_exists", "read", "commit", "and whether the result is there", after=_UNSURE),
    Step("worker.commit.write@idle", "write", "release", "running to idle", story="plain"),
    Step("worker.hold_session.next_entry@idle", "read", "release", "one more look at the inbox", story="plain race"),
    Step("worker.hold_session.write@running", "write", "release", "take the session back", story="race"),
    Step(
        "worker.hold_session.read", "read", "release", "read after an unsure taking back", story="race",
        after=("worker.hold_session.write@running:request_lost",),
    ),
    Step("worker.hold_session.write@queued", "write", "release", "queue it for another", story="race_leaving"),
    Step("worker.beat.beat", "say", "run", "a heartbeat"),
    # ------------------------------------------------------------------------------------------------ pool-manager
    Step("pool_manager.wake.read", "read", "wake", "read a session that is not known"),
    Step("pool_manager.wake.write", "write", "wake", "idle to queued", wait_s=0.5),
    Step("pool_manager.wake.send_token", "write", "wake", "its token"),
    Step("pool_manager.wake.next_entry", "read", "wake", "what an ended session got"),
    Step("pool_manager.wake.put_result", "write", "wake", "refuse what an ended session got", wait_s=0.5),
    Step("pool_manager.wake.purge_inbox", "write", "wake", "empty an ended session's inbox", wait_s=2.0),
    Step("pool_manager.recover.next_entry", "read", "recover", "find the task in hand", after=_DIES, story="later"),
    Step("pool_manager.recover.result", "read", "recover", "see whether it has its result", after=_DIES, story="later"),
    Step("pool_manager.recover.write", "write", "revoke", "running to queued, the epoch raised", wait_s=0.5, after=_DIES),
    Step(
        "pool_manager.recover.read", "read", "revoke", "read the record after an unsure revocation",
        after=(*_DIES, "pool_manager.recover.write:request_lost"),
    ),
    Step("pool_manager.recover.send_token", "write", "recover", "the token in the class recovery", after=_DIES),
    Step("pool_manager.recover.end", "write", "revoke", "the end of poison", wait_s=0.5, after=_DIES, story="poison"),
    Step("pool_manager.sweep.next_message", "read", "sweep", "look for a token that may be lost", after=_TOKEN_LOST),
    Step("pool_manager.sweep.send_token", "write", "sweep", "send it again", after=_TOKEN_LOST),
    Step("pool_manager.sweep.inbox_subjects", "read", "sweep", "survey the inboxes", wide=True),
    Step("pool_manager.sweep.read", "read", "sweep", "read the record of an inbox", story="rest"),
    Step("pool_manager.sweep.next_entry", "read", "sweep", "see whether it holds work", story="rest"),
    Step("pool_manager.sweep.purge_inbox", "write", "sweep", "remove what is done", wait_s=2.0, story="rest"),
    Step("pool_manager.expire.counts", "read", "sweep", "count what waits in the lanes", wide=True),
    Step("pool_manager.expire.next_message", "read", "sweep", "read what waits", story="overdue"),
    Step("pool_manager.expire.end", "write", "sweep", "the end of an overdue message", wait_s=0.5, story="overdue"),
    Step("pool_manager.expire.remove", "write", "sweep", "take it off its lane", wait_s=2.0, story="overdue", wide=True),
    Step("pool_manager.ring.counts", "read", "sweep", "count what waits for a bell", wide=True),
    Step("pool_manager.ring.undelivered", "read", "sweep", "count what nobody was handed", after=_UNHEARD),
    Step("pool_manager.ring.ring", "say", "sweep", "ring again", after=_UNHEARD),
    Step("pool_manager.ring.next_message", "read", "sweep", "find what waits for a pod", story="deaf"),
    Step("pool_manager.cancel.read", "read", "cancel", "read the session of a task to cancel"),
    Step("pool_manager.cancel.result", "read", "cancel", "read the task's result"),
    Step("pool_manager.cancel.entry", "read", "cancel", "find how an inbox task came"),
    Step("pool_manager.cancel.cancel", "write", "cancel", "ask the owner", wait_s=4.0),
    Step("pool_manager.cancel.end", "write", "cancel", "end a session that nobody runs", wait_s=0.5),
    Step("pool_manager.cancel.put_result", "write", "cancel", "end a task that nobody runs", wait_s=0.5),
    Step("pool_manager.cancel.answer", "say", "cancel", "answer the client", wide=True),
    Step("pool_manager.answer.read", "read", "ask", "read a session to show it"),
    Step("pool_manager.answer.answer", "say", "ask", "answer the client", wide=True),
    Step("pool_manager.refill.reserve", "write", "refill", "reserve a pod's name in its slot", wait_s=0.5),
    Step(
        "pool_manager.refill.read", "read", "refill", "read the slot after an unsure reservation",
        after=("pool_manager.refill.reserve:answer_lost",),
    ),
    Step("pool_manager.refill.create", "write", "refill", "ask a node to start the pod", wait_s=2.0),
    Step("pool_manager.refill.delete", "write", "refill", "ask a node to end a pod", wait_s=2.0, story="spare"),
    Step("pool_manager.refill.drop", "write", "refill", "forget a slot", wait_s=2.0, story="on_demand", wide=True),
    Step("pool_manager.learn.scan", "scan", "sweep", "read slots and records at the start", story="restart", wide=True),
    Step("pool_manager.beat.beat", "say", "sweep", "say to the other pool-managers that it lives", wide=True),
    *SAVING,
)  # fmt: skip

NOT_PLACED: dict[str, str] = {
    "worker.claim.commit": "the end of a message older than a day: the write is like commit.commit",
    "worker.commit.write@closed": "an id that was published to two pools: the write is like the release",
    "worker.note.tell": "spans: what is lost is not seen in a trace, nothing else",
    "worker.run_task.wait_lost": "an event of this process, no call",
    "worker.beat.probe": "without contact only: driven by a cut connection",
    "worker.beat.read": "without contact only: driven by a cut connection",
    "worker.beat.freeze": "without contact only: driven by a cut connection",
    "worker.beat.thaw": "without contact only: driven by a cut connection",
    "worker.adapters.writer": "large outputs: chunks under a name of the attempt's own, at worst they stay until their time",
    "worker.adapters.abandon": "large outputs: what is not abandoned stays until its time",
    **dict.fromkeys(("worker.midway.freeze", "worker.midway.thaw"), "without it no sandbox"),
    "worker.clocks.server_ahead_ms": "without an answer its own clock holds",
    **dict.fromkeys(
        ("worker.keep_volume.take", "worker.keep_volume.freeze", "worker.keep_volume.thaw"),
        "volumes are Kubernetes' alone: asked again until it is done, or the session's owner is another",
    ),
    **dict.fromkeys(
        ("worker.keep_lease.freeze", "worker.keep_lease.thaw", "worker.keep_lease.lease"),
        "the sandbox's own clock stops what this does not",
    ),
    "worker.renew.renew": "asked again, for a fifth of the credential's life",
    "worker.run_in_terminal.heard": "asked again while the task runs; clients whom nobody hears ask again as well",
    "worker.run_in_terminal.run": "the place is that of who calls it: run_task.run",
    **{
        f"worker.run_in_terminal.{method}": "a word to the runner, no answer is waited for; input that gets none comes again"
        for method in ("type", "resize", "hang_up")
    },
    "worker.bury.bury": "the place is that of who calls it: see run_task.bury; hold_session does it alike for names that are none",
    "worker.claim.result_exists": "after a conflict at an end that nobody else wrote: the message is given back",
    **{
        f"pool_manager.entries.{method}": "the place is that of who calls it: wake, quota or overdue"
        for method in ("put_result", "remove_entry", "result")
    },
    **dict.fromkeys(
        ("pool_manager.stock.read", "pool_manager.stock.write"),
        "what was decided a second ago: the next second decides and writes again, under the sequence that it read",
    ),
    "pool_manager.wake.result": "after a conflict only: without an answer the inbox stays as it is",
    "pool_manager.expire.read": "after a conflict only: without an answer the message stays where it is",
    "pool_manager.expire.result": "after a conflict only: without an answer the message stays where it is",
    "worker.claim.bury": "headers that are wrong: the write is like run_task.bury",
    **{
        f"pool_manager.overdue.{method}": "a deadline that passed where no worker looks: looked at again each second"
        for method in (
            "bury",
            "end",
            "next_entry",
            "next_of_tenant",
            "payload",
            "put_result",
            "read",
            "remove_entry",
            "result",
        )
    },
    **dict.fromkeys(
        (
            "pool_manager.watch_cluster.pods",
            "pool_manager.watch_cluster.nodes",
            "pool_manager.watch_cluster.runtimes",
        ),
        "Kubernetes alone: endless, what is missed is listed again",
    ),
    **dict.fromkeys(
        ("pool_manager.watch_cluster.remove", "pool_manager.watch_cluster.retire"),
        "Kubernetes alone: what is to go is seen, and ended, until it is gone",
    ),
    **{
        f"pool_manager.enrol.{method}": "Kubernetes alone: a pod asks again under the same key until it has its answer"
        for method in ("prove", "read", "reserve", "answer")
    },
    **{
        f"pool_manager.keep_volumes.{method}": "Kubernetes alone: looked at again every few seconds"
        for method in ("claims", "keepers", "keeper_nodes", "claim", "keep", "dismiss", "mark")
    },
    "pool_manager.kube_pods.make": "Kubernetes alone: the pod is asked for again",
    "pool_manager.recover.bury": "the third death in a task: judged again until it is done",
    "pool_manager.recover.remove": "a letter of a worker that lived after all: at worst it stays",
    "pool_manager.recover.payload": "the third death in a task: judged again until it is done",
    **{
        f"pool_manager.replay.{method}": "a question of a client, who asks again, and has the result in the end"
        for method in ("scan", "following", "last")
    },
    "pool_manager.answer.page": "a question of a client, who asks again",
    "pool_manager.answer.find": "a question of a client, who asks again",
    **{
        f"pool_manager.list_tasks.{method}": "a question of a client, who asks again"
        for method in ("ended", "next_entry", "read", "result")
    },
    "pool_manager.answer.remove": "a client drops a letter, and asks again",
    "pool_manager.renew.answer": "a worker that got no answer asks again, for a fifth of its credential's life",
    **{
        f"pool_manager.quota.{method}": "a tenant beyond its bounds: looked at again at each survey"
        for method in ("full", "next_entry", "put_result", "read", "remove_entry", "result")
    },
    "pool_manager.shards.answers": "asked again three times a second; nothing hangs on one answer",
    "pool_manager.shards.say_down": "said again three times a second",
    "pool_manager.balance.look": "twice a minute; without an answer nothing is moved",
    "pool_manager.balance.move": "twice a minute; leaders that stay elsewhere work as well",
    **{
        f"pool_manager.objects.{method}": "a tenant's objects beyond their bound: looked at again each round"
        for method in ("stored_bytes", "look", "since", "drop")
    },
    "pool_manager.expire.purge_results": "after two days only",
    "pool_manager.expire.next_record": "after two days only",
    "pool_manager.expire.remove_record": "after two days only",
}
"""Calls of a port that have no failpoint, and why."""

PLACES = frozenset(
    name.rpartition(".")[0] for name in (*(step.name for step in STEPS), *NOT_PLACED)
)
"""`<service>.<loop>` of all of them."""
BY_NAME: dict[str, Step] = {step.name: step for step in STEPS}
