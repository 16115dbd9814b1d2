"""Names of pods, checked before they become parts of paths."""

from __future__ import annotations

import re
from typing import Final

from shared.errors import InvalidMessage

MARK_BYTES_MAX: Final = 4096
WORKSPACE: Final = "workspace"
_POD: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def check_pod(pod: str) -> str:
    """Return the name of a pod.

    Raises:
        InvalidMessage: no pod is called so.
    """
    if not _POD.fullmatch(pod):
        raise InvalidMessage(f"pod: no such name {pod[:80]!r}")
    return pod
