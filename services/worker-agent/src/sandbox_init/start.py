"""From the container's start to the runner."""

import os
import sys

from sandbox_init.walls import NotConfined, confine
from sandbox_runner.joining import connect
from sandbox_runner.loop import main as run

EXIT_NOT_CONFINED = 71
"""Exit code of a container that ended before it was confined: nothing untrusted ran."""

_USAGE = "usage: sandbox_init --connect PATH --workspace DIRECTORY --pids NUMBER --disk-mib NUMBER [--volume DIRECTORY]"
_CONNECT_S = 60.0
"""The sidecar listens before this container is started, unless it was restarted meanwhile."""
_CHANNEL_FD = 3
_FDS_MAX = 65536
_NOT_FOR_USERS = ("KUBERNETES_", "HOSTNAME")
_ENVIRONMENT = {
    "LANG": "C.UTF-8", "LOGNAME": "agent", "PATH": "/usr/local/bin:/usr/bin:/bin", "SHELL": "/bin/sh", "USER": "agent",
}  # fmt: skip


def main(arguments: list[str]) -> int:
    """Connects, confines this process, and serves the sidecar until it lets go.

    Args:
        arguments: Options and their values, alternating. `--volume`: a folder into which others will move the workspace;
            code runs on a lease then.

    Returns:
        The exit code.
    """
    options = dict(zip(arguments[::2], arguments[1::2], strict=False))
    volume = options.pop("--volume", None)
    if len(arguments) % 2 or options.keys() != {"--connect", "--workspace", "--pids", "--disk-mib"}:
        raise SystemExit(_USAGE)
    workspace = options["--workspace"]
    channel = _keep_only(connect(options["--connect"], "sandbox_init", _CONNECT_S))
    _set_environment(workspace)
    _forget_ourselves()
    os.umask(0o022)
    try:
        network = confine(volume or workspace, int(options["--pids"]), int(options["--disk-mib"]))
    except (NotConfined, OSError) as error:
        sys.stderr.write(f"sandbox_init: not confined, so nothing runs here: {error}\n")
        return EXIT_NOT_CONFINED
    leased = volume is not None
    return run(channel, workspace, network=network, in_container=True, leased=leased)


def _keep_only(channel: int) -> int:
    """Leaves the channel as the only descriptor beside the first three, which are the container's log."""
    if channel != _CHANNEL_FD:
        os.dup2(channel, _CHANNEL_FD)
    os.set_inheritable(_CHANNEL_FD, False)
    os.closerange(_CHANNEL_FD + 1, _FDS_MAX)
    return _CHANNEL_FD


def _set_environment(workspace: str) -> None:
    """Keeps what the image says (where its programs are, …), drops what Kubernetes adds, which is about the cluster."""
    for name in list(os.environ):
        if name.startswith(_NOT_FOR_USERS):
            del os.environ[name]
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    os.environ.update(HOME=workspace, WORKSPACE=workspace, TMPDIR="/tmp")


def _forget_ourselves() -> None:
    """Lets user code find the interpreter's own packages, which `-I -S` leaves out, and not this program's."""
    own = os.path.dirname(os.path.dirname(__file__))
    sys.path[:] = [folder for folder in sys.path if folder != own]
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for folder in (f"{sys.prefix}/lib/{version}/site-packages", "/usr/lib/python3/dist-packages"):
        if os.path.isdir(folder) and folder not in sys.path:
            sys.path.append(folder)
