"""The worker: the trusted half of a pod. It takes one session, works it off, and ends."""

from shared.lean import stay_lean


def preload() -> None:
    """Import and play through all that a worker needs, once, in the zygote that forks workers."""
    stay_lean()
    import worker_agent.__main__  # noqa: F401, PLC0415 - imported for what it loads
    from worker_agent.rehearsal import rehearse  # noqa: PLC0415 - likewise

    rehearse()
