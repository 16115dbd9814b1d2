"""The marker that keeps a used pod from serving again. Standard library only: a sidecar's first act."""

import os

MARKER = "used"


def mark_used(folder: str) -> bool:
    """Write the marker into a folder of the pod's own; return False if it was there: it has served before and must end.

    Raises:
        OSError: it can not be written.
    """
    try:
        os.close(os.open(f"{folder}/{MARKER}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    return True
