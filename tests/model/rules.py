"""The rules of the session protocol, each of which a mutant may drop, and the properties that must then break.

Properties (checked in every state unless said otherwise):

    P0   the record's own transitions allow every write that the protocol makes
    P1   from every state, a state with a result for every accepted task can be reached (over the graph)
    P2   each result is written once; `boundary` holds exactly the tasks that ended ok, once each, in order; in part only
         what its owner stopped, what ended as interrupted, and what was resumed
    P3   no write by a revoked owner; no claim past an owner
    P6   a cancel that was answered `cancelled` has the result `cancelled`
    P7   from every state, a state of rest can be reached (over the graph): no livelock, no owner that stays for ever
         without knowing that it owns (named P5 where such an owner is in the trap)
    P8   poison only after three deaths of the worker process since the last progress, of owners that had begun the task or
         got the session for it, and always with its task
    P9   no task is rejected while the first task of its session may still come
    P10  a workspace that was lost is said to be lost, once, and only then
    P11  the record's position and first_done cover exactly tasks that have a result
    P12  what was rescued of a dead pod is what its session goes on with; no task ends as interrupted that never began there
    P13  where checkpointers are always there, nothing is lost of a pod that dies with nothing begun in it

P1 and P7 are checked with faults and clients left out of the continuation: "possible from everywhere", hence certain
under strong fairness.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from shared.pools import OnInterrupt


class Broken(Exception):
    """A property does not hold; the message starts with its name."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What the protocol demands. Every default is the rule; a mutant changes one."""

    claim_by_cas: bool = True
    """A claim is written under the sequence that its worker read."""
    create_expects_none: bool = True
    """A plain message's puller creates the record only where there is none."""
    ack_after_claim: bool = True
    """A plain message is acked once the record names its puller."""
    redelivery: bool = True
    """The queue delivers again what nobody acked."""
    unanswered_claim: Literal["read", "lost", "won"] = "read"
    """What a worker takes a claim without an answer for: it reads who owns."""
    claim_grows_epoch: bool = True
    commit_by_cas: bool = True
    """A result and its record are written under the sequence that the owner knows."""
    commit_is_one_batch: bool = True
    result_is_created: bool = True
    """A result is written only where there is none."""
    done_tasks_are_skipped: bool = True
    """A task that has a result never runs."""
    refused_commit_restores: Literal["boundary", "nothing", "own"] = "boundary"
    """What the workspace goes back to after a refused commit: what the re-read record says."""
    last_look: bool = True
    """After the release the owner looks at the inbox once more."""
    last_look_after_release: bool = True
    release_moves_position: bool = True
    """The release moves `position` past every entry that has a result."""
    revoke_writes: bool = True
    """Giving an owner up changes the record."""
    revoke_grows_epoch: bool = True
    zombie_dies: bool = True
    """Who finds another owner in its record ends; it does not go on under the new epoch."""
    heartbeats_name_epoch: bool = True
    """An owner that does not name (session, epoch) is revoked although its process lives."""
    dead_are_revoked: bool = True
    tokens_are_swept: bool = True
    """The sweeper sends a token for what is queued and unclaimed."""
    token_ids_hold_time: bool = True
    """The sweeper's second token for the same record is not taken for a duplicate of its first."""
    idle_are_swept: bool = True
    """The sweeper wakes what is idle with an inbox beyond its position."""
    ended_are_swept: bool = True
    """The sweeper rejects what lies in the inbox of an ended record."""
    expiry_creates: bool = True
    """`expired` is created where there is no record, never put over one."""
    unknown_waits: bool = True
    """The inbox of an unknown session is left alone: its first task may still wait in its lane."""
    end_is_one_batch: bool = True
    """An end is one batch: the record and the result."""
    deliveries_are_no_deaths: bool = True
    """Poison counts deaths in the record, never deliveries."""
    deaths_name_task: bool = True
    """Whoever revokes a dead owner says which task was in hand."""
    idle_deaths_are_free: bool = True
    """A death while no task was in hand counts for none."""
    idle_deaths_count_for_no_task: bool = True
    """Nor for a task that came in when its owner had died, or that this had not begun."""
    checkpoint_by_cas: bool = True
    """A checkpoint in mid-task is written under the sequence that its owner knows."""
    rerun_begins_at_boundary: bool = True
    """A task that is run again begins with the files from before it."""
    rescue_of_whole_only: bool = True
    """A workspace that was not restored to its end is rescued by nobody."""
    rescue_heeds_task: bool = True
    """What a dead pod was in the middle of is that task's `latest`, or nothing: no boundary of an idle session."""
    rescued_whole_is_boundary: bool = True
    """What was rescued of a session whose worker had begun nothing is its boundary, whatever came in meanwhile."""
    rescued_whole_is_no_interruption: bool = True
    """A task that came in before its worker was missed, and of which nothing had begun, was not interrupted."""
    whole_is_rescued_before_rerun: bool = True
    """A workspace that holds nothing in part is saved also where the next task would run again from the boundary."""
    rescue_has_deadline: bool = True
    """A dead checkpointer's rescue is revoked like an owner."""
    cancel_answers_after_commit: bool = True


class Budget(NamedTuple):
    """How often each fault (and each cancel) may still happen."""

    crash: int = 0
    lost: int = 0
    """Answers and acks that get lost; the write lands late, or never."""
    suspect: int = 0
    """Live owners that a pool-manager gives up: they become zombies."""
    cancel: int = 0
    copy: int = 0
    """The publisher's retry lands on another shard."""
    rescue: int = 0
    """Dead pods whose files are saved."""
    checkpoint: int = 0
    """Checkpoints in the middle of a task."""
    hint: int = 0
    """Wake-ups that get lost."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to one session."""

    budget: Budget
    tasks: int = 0
    """Inbox tasks, beside the plain first one."""
    keep: bool = True
    """False: closed with its first task."""
    close_at: int | None = None
    """The task that closes the session when it ends ok."""
    expiry: bool = False
    """The plain message may come past its deadline."""
    sweeper: bool = True
    """False: tokens are sent with the write that makes a session wait, and by nothing else."""
    early_follow_ups: bool = True
    """Clients send the next task before the session's record exists."""
    snapshots: bool = True
    """The workspace outlives its pod. False: it is lost with the pod, and the client is told."""
    relaxed: bool = False
    """A task's files are saved with its result, or not. False: always, if there are snapshots at all."""
    rescue_is_sure: bool = False
    """A dead pod's checkpointer can be asked, and is, while the budget lasts. False: perhaps."""
    on_interrupt: OnInterrupt = "rerun"
    classes: bool = False
    """The first inbox task asks for a worker in `batch`, later ones in `interactive`."""
    deliveries_max: int = 2
    """Only for the mutant that counts deliveries."""
    deaths_max: int | None = None
    """Deaths in one task that make it poison, if not as many as in earnest."""
