"""Extended attributes: those that users set (`user.*`), no others.

`security.*` (capabilities) and `trusted.*` would give rights to whoever restores them; `system.*` are access lists of
users that another machine does not have.
"""

from __future__ import annotations

import errno
import os
from typing import Final

from checkpointer.core.entries import show
from shared import limits
from shared.errors import LimitExceeded

Attributes = tuple[tuple[bytes, bytes], ...]
"""Names and values, sorted by name."""

PREFIX: Final = "user."
_NONE_HERE: Final = {errno.ENOTSUP, errno.EPERM, errno.EACCES}
_GONE: Final = {errno.ENODATA, errno.ERANGE}


def read_attributes(fd: int, path: bytes) -> Attributes:
    """Return the attributes of an open file or directory.

    Args:
        fd: open, and not by `O_PATH`.
        path: for the error's text.

    Raises:
        LimitExceeded: more than `WORKSPACE_XATTR_BYTES_MAX` bytes.
        OSError: the disk failed.
    """
    try:
        names = os.listxattr(fd)
    except OSError as error:
        if error.errno in _NONE_HERE:
            return ()
        raise
    if not names:
        return ()
    found: list[tuple[bytes, bytes]] = []
    total = 0
    for name in names:
        if not name.startswith(PREFIX):
            continue
        try:
            value = os.getxattr(fd, name)
        except OSError as error:
            if (
                error.errno in _GONE | _NONE_HERE
            ):  # removed since it was listed: the next look will see a new ctime
                continue
            raise
        found.append((os.fsencode(name), value))
        total += len(found[-1][0]) + len(value)
        if total > limits.WORKSPACE_XATTR_BYTES_MAX:
            raise LimitExceeded(
                f"{show(path)}: more than {limits.WORKSPACE_XATTR_BYTES_MAX} bytes of extended attributes"
            )
    return tuple(sorted(found))


def write_attributes(fd: int, attributes: Attributes) -> int:
    """Set attributes of an open file or directory; return how many the file system did not take."""
    refused = 0
    for name, value in attributes:
        if not name.startswith(PREFIX.encode()):
            refused += 1
            continue
        try:
            os.setxattr(fd, name, value)
        except (OSError, ValueError):  # ValueError: a name with a NUL byte
            refused += 1
    return refused
