"""The program inside the sandbox: runs what the sidecar asks for, and trusts nobody's file descriptors but its own.

Reading order: `protocol` (the words on the wire) < `channel` (frames over one descriptor) < `output`, `birthplace` (a task's
pipes, its processes) < `command`, `terminal` + `seat`, `interpreter` + `notebook`, `files` (what a task can be) < `task`,
`operation` (one at a time) < `loop` (the one loop that joins them).
Standard library only: every idle sandbox pays for each import.
"""

from collections.abc import Callable


def __getattr__(name: str) -> Callable[..., int]:
    """Loads the runner for whoever asks for its `main`; the sidecar, which needs `protocol` alone, does not carry it."""
    if name != "main":
        raise AttributeError(name)
    from sandbox_runner.loop import main  # noqa: PLC0415 - see above

    return main
