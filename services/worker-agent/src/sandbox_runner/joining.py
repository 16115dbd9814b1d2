"""The way to a sidecar in another container: by a socket's path in a volume that both have."""

import socket
import time

_PAUSE_S = 0.05


def connect(path: str, program: str, within_s: float) -> int:
    """Connects to the sidecar, which may still be on its way up, and returns the descriptor.

    Args:
        path: Of its socket.
        program: Who wants it, for the message.
        within_s: Longest time to try.

    Raises:
        SystemExit: Nobody listens there in time; says why.
    """
    end_at_s = time.monotonic() + within_s
    while True:
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            channel.connect(path)
        except OSError as error:
            channel.close()
            if time.monotonic() > end_at_s:
                raise SystemExit(f"{program}: {path}: {error.strerror or error}") from error
            time.sleep(_PAUSE_S)
        else:
            return channel.detach()
