"""`python -m sandbox_runner --connect PATH|--fd N --workspace DIR`: the runner where nobody forks it, as in a container."""

import os
import socket
import sys
import time

from sandbox_runner.loop import main

_USAGE = "usage: python -m sandbox_runner (--connect PATH | --fd NUMBER) --workspace DIRECTORY"
_CONNECT_S = 30.0
_CONNECT_PAUSE_S = 0.05
_FDS_MAX = 65536


def _connect(path: str) -> int:
    """Connects to the sidecar, which may still be on its way up."""
    end_at_s = time.monotonic() + _CONNECT_S
    while True:
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            channel.connect(path)
        except OSError as error:
            channel.close()
            if time.monotonic() > end_at_s:
                raise SystemExit(f"sandbox_runner: {path}: {error.strerror}") from error
            time.sleep(_CONNECT_PAUSE_S)
        else:
            return channel.detach()


def _run(arguments: list[str]) -> int:
    options = dict(zip(arguments[::2], arguments[1::2], strict=False))
    workspace = options.pop("--workspace", None)
    path, number = options.pop("--connect", None), options.pop("--fd", None)
    if options or len(arguments) % 2 or workspace is None or (path is None) == (number is None):
        raise SystemExit(_USAGE)
    fd = _connect(path) if path is not None else int(number or "")
    os.closerange(3, fd)
    os.closerange(fd + 1, _FDS_MAX)
    os.set_inheritable(fd, False)
    return main(fd, workspace)


if __name__ == "__main__":
    sys.exit(_run(sys.argv[1:]))
