"""The clients and the command line of Agent Sandbox."""

from agent_sandbox.access import ClientOptions
from agent_sandbox.client import Client
from agent_sandbox.events import Event, Missing, Output, Progress, Recovered, Started
from agent_sandbox.letters import DeadLetters
from agent_sandbox.objects import Objects
from agent_sandbox.results import NoResultYet, Result, TaskFailed
from agent_sandbox.running import RunningTask
from agent_sandbox.session import Session
from agent_sandbox.shell import Shell
from agent_sandbox.sync import (
    SyncClient,
    SyncDeadLetters,
    SyncObjects,
    SyncSession,
    SyncShell,
    SyncTask,
)
from agent_sandbox.unpacking import Unpacked
from shared.errors import (
    Forbidden,
    InvalidMessage,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    Rejected,
    ServiceError,
    Unavailable,
)
from shared.rest import Tti

__all__ = [
    "Client",
    "ClientOptions",
    "DeadLetters",
    "Event",
    "Forbidden",
    "InvalidMessage",
    "LimitExceeded",
    "Missing",
    "NoResultYet",
    "NotFound",
    "Objects",
    "OutcomeUnknown",
    "Output",
    "Progress",
    "Recovered",
    "Rejected",
    "Result",
    "RunningTask",
    "ServiceError",
    "Session",
    "Shell",
    "Started",
    "SyncClient",
    "SyncDeadLetters",
    "SyncObjects",
    "SyncSession",
    "SyncShell",
    "SyncTask",
    "TaskFailed",
    "Tti",
    "Unavailable",
    "Unpacked",
]
