"""The sandbox zygote: forks confined runners. Standard library only; holds no secret and no descriptor of a pod."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable

from confinement import harden, linux
from local_node.adapters.confine import check
from local_node.adapters.confine.sandbox import Confinement, Plan
from local_node.adapters.zygote import protocol
from local_node.adapters.zygote.server import Role

_ENVIRONMENT = {
    "HOME": "/workspace", "LANG": "C.UTF-8", "LOGNAME": "agent", "USER": "agent", "WORKSPACE": "/workspace",
    "TMPDIR": "/tmp", "SHELL": "/bin/sh",
}  # fmt: skip


class SandboxRole(Role):
    """Children that confine themselves and then run the runner."""

    def __init__(
        self, confinement: Confinement, main: Callable[[int, str], int], *, rooted: bool
    ) -> None:
        """Run `main` in children confined by `confinement`."""
        super().__init__()
        self._confinement = confinement
        self._main = main
        self.keeps_tree = not rooted  # with a process namespace the kernel does it
        self.facts = {"counts_by_namespace": confinement.counts_by_namespace}

    def fork(self) -> int:
        """Fork, into a process namespace where the class has one."""
        return self._confinement.fork()

    def child(self, body: bytes, fds: tuple[int, ...]) -> int:
        """Confine this process, then be the runner."""
        request = protocol.unpack(body)
        channel, *cgroups = fds
        plan = Plan(request)
        workspace = self._confinement.enter(plan, cgroups, self.zygote_fd)
        if request.get("probe"):
            check.check(plan.isolation, workspace)
            return 0
        return self._main(harden.keep_only_channel(channel), workspace)


def prepare(config: protocol.Request) -> SandboxRole:
    """Preload the runner and build what all its copies share.

    Args:
        config: `path` (folders that hold the runner's module), `module`, `own_path` (folders of this package),
            `pods_dir`, `read_only`, `rooted`.

    Raises:
        ImportError: the module is not there.
        OSError: not permitted to build the root.
    """
    linux.work_in_background()
    folders, own, read_only = config["path"], config["own_path"], config["read_only"]
    assert isinstance(folders, list), "a list expected"
    assert isinstance(own, list), "a list expected"
    assert isinstance(read_only, list), "a list expected"
    plain_path = [path for path in sys.path if path not in own]
    sys.path[:0] = folders
    main = importlib.import_module(str(config["module"])).main
    sys.path[:] = plain_path  # what it imports later comes from the standard library
    rooted = bool(config["rooted"])
    os.environ.clear()
    os.environ.update(_ENVIRONMENT)
    os.environ["PATH"] = os.pathsep.join(
        dict.fromkeys((os.path.dirname(sys.executable), "/usr/local/bin", "/usr/bin", "/bin"))
    )
    confinement = Confinement(str(config["pods_dir"]), read_only, rooted=rooted)
    return SandboxRole(confinement, main, rooted=rooted)
