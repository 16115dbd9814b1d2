"""`python -m sandbox_runner --connect PATH|--fd N --workspace DIR`: the runner where nobody forks it, as in a container."""

import os
import sys

from sandbox_runner.joining import connect
from sandbox_runner.loop import main

_USAGE = "usage: python -m sandbox_runner (--connect PATH | --fd NUMBER) --workspace DIRECTORY [--leased yes]"
_CONNECT_S = 30.0
_FDS_MAX = 65536


def _run(arguments: list[str]) -> int:
    options = dict(zip(arguments[::2], arguments[1::2], strict=False))
    workspace, leased = options.pop("--workspace", None), options.pop("--leased", "") == "yes"
    path, number = options.pop("--connect", None), options.pop("--fd", None)
    if options or len(arguments) % 2 or workspace is None or (path is None) == (number is None):
        raise SystemExit(_USAGE)
    fd = connect(path, "sandbox_runner", _CONNECT_S) if path is not None else int(number or "")
    os.closerange(3, fd)
    os.closerange(fd + 1, _FDS_MAX)
    os.set_inheritable(fd, False)
    return main(fd, workspace, leased=leased)


if __name__ == "__main__":
    sys.exit(_run(sys.argv[1:]))
