"""What is asked of a pool's keepers, who move sessions' folders on the volume that the pool's pods share."""

from __future__ import annotations

import msgspec

from shared.errors import ErrorInfo
from shared.messages import Message

FOLDER = "files"
"""Of a session's folder, in its pod's: where a pod works is the same in all of them."""
GROUP = "keeper"
"""Queue group of a pool's keepers."""
AFTER_FENCE_S = 1.0
"""Who takes a session over from an owner whose end nobody saw waits for T_fence and so much more; the former one's code
stands still T_fence less as much after the last proof that the session was still its own."""


class TakeAsk(Message, frozen=True, kw_only=True):
    """A worker asks for its session's files. Asked twice, it is done once."""

    tenant: str
    session: str
    epoch: int


class MakeAsk(Message, frozen=True, kw_only=True):
    """A pool-manager asks for a folder for a pod, before it makes the pod."""


class VolumeAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """It is done, unless there is an error."""

    error: ErrorInfo | None = None
