"""The worker: the trusted half of a pod. It takes one session, works it off, and ends."""

import sys


def preload() -> None:
    """Import and play through all that a worker needs, once, in the zygote that forks workers."""
    # structlog loads it for tracebacks on a terminal where it is installed: 66 modules that no worker needs.
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # how an import is refused
    import worker_agent.__main__  # noqa: F401, PLC0415 - imported for what it loads
    from worker_agent.rehearsal import rehearse  # noqa: PLC0415 - likewise

    rehearse()
