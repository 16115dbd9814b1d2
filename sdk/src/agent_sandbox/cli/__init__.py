"""The `agent-sandbox` command line.

Exit codes: the command's own for `run`, `session exec` and `session python` (128 + signal where one killed it);
124 timeout or deadline; 125 the system's fault or refusal; 126, 127 the program can't be run or found; 130 cancelled
by Ctrl-C; 137 out of memory; 2 wrong usage; 0 and 1 elsewhere.
"""

from agent_sandbox.cli.root import main

__all__ = ["main"]
