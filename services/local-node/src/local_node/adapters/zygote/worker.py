"""The worker zygote: forks sidecars, which are trusted. Secrets come with each start, never before the fork."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

from confinement import harden, linux
from local_node.adapters.zygote import protocol
from local_node.adapters.zygote.server import Role

EXIT_FAILED = 70
"""Exit code of a sidecar that ended with an exception."""

RunForked = Callable[[dict[str, Any], int, str, int, str | None], int]
"""(spec, channel_fd, pod_dir, sandbox_pid, cgroup) -> exit code."""


class WorkerRole(Role):
    """Children that are sidecars."""

    def __init__(self, run_forked: RunForked) -> None:
        """Run `run_forked` in each child."""
        super().__init__()
        self._run_forked = run_forked

    def child(self, body: bytes, fds: tuple[int, ...]) -> int:
        """Be the sidecar of one pod."""
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        request = protocol.unpack(body)
        harden.die_with(self.zygote_fd)
        os.closerange(3, fds[0])  # the zygote's own
        os.closerange(fds[0] + 1, 65536)
        spec, cgroup = request["spec"], request["cgroup"]
        assert isinstance(spec, dict), "a spec expected"
        assert cgroup is None or isinstance(cgroup, str), "a path expected"
        sandbox_pid = int(str(request["sandbox_pid"]))
        try:
            return self._run_forked(spec, fds[0], str(request["pod_dir"]), sandbox_pid, cgroup)
        except Exception:  # noqa: BLE001 - the border of this process
            traceback.print_exc()  # the way to the node is closed already
            return EXIT_FAILED
        finally:
            sys.stdout.flush()
            sys.stderr.flush()


def prepare(config: protocol.Request) -> WorkerRole:
    """Import the sidecar's module, and let it preload what it needs.

    Args:
        config: `path` (sys.path of the node), `module`.

    Raises:
        ImportError: the module is not there, or lacks `run_forked`.
    """
    path = config["path"]
    assert isinstance(path, list), "a list expected"
    sys.path[:] = path
    linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGKILL)
    name = str(config["module"])
    package = importlib.import_module(name)
    entry = (
        package if hasattr(package, "run_forked") else importlib.import_module(f"{name}.__main__")
    )
    if not hasattr(entry, "run_forked"):
        raise ImportError(
            f"{name} has no run_forked(spec, channel_fd, pod_dir, sandbox_pid, cgroup)"
        )
    preload = getattr(package, "preload", None)
    if preload is not None:
        preload()
    linux.work_in_background()
    return WorkerRole(entry.run_forked)
