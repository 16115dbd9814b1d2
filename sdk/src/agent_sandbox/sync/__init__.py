"""The client for programs without an event loop: the same words, called and returned from.

One connection on a thread of its own; all threads of a process may share it. `^C` ends what the caller waits for.
"""

from agent_sandbox.sync.client import SyncClient
from agent_sandbox.sync.parts import SyncDeadLetters, SyncObjects, SyncTask
from agent_sandbox.sync.session import SyncSession
from agent_sandbox.sync.shell import SyncShell

__all__ = ["SyncClient", "SyncDeadLetters", "SyncObjects", "SyncSession", "SyncShell", "SyncTask"]
