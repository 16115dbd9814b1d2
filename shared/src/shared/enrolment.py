"""How a pod that Kubernetes started gets its credential: it asks for one, with a proof of which pod it is.

Nothing secret of one pod ever lies in the API server: the pod makes its own key, the proof is a service account token
that the kubelet wrote for this pod alone, and what comes back is of use to the key's holder only.
"""

from __future__ import annotations

from shared.errors import ErrorInfo
from shared.messages import Message, PodSpec

AUDIENCE = "agent-sandbox"
"""Audience of the token: the API server takes no such token, nor does anybody else."""
SECRET_FILE = "enroller.creds"  # noqa: S105 - a file's name
"""Key of the Secret that holds the credential with which pods ask."""
REPLIES = "_INBOX_enroller."
"""Where the answers go: the inbox that is open to this credential."""


class Enroll(Message, frozen=True, kw_only=True, omit_defaults=True):
    """Request of a pod on `enroll.<pool>.<pod>`: who it is, and its key. Repeated under the same key until answered."""

    token: str
    """Projected service account token of audience `AUDIENCE`."""
    public_key: str
    """NATS user key that the pod made; its seed never leaves the pod."""
    node: str
    """Kubernetes node that it runs on."""
    pod_uid: str

    def __repr__(self) -> str:
        """Hide the token."""
        return f"Enroll({self.pod_uid} on {self.node})"


class Enrolled(Message, frozen=True, kw_only=True, omit_defaults=True):
    """The answer of a pool-manager."""

    spec: PodSpec | None = None
    """What the worker needs. Its credential is a JWT for the key that asked; the seed is left empty."""
    error: ErrorInfo | None = None
    """Why there is none. A definite error ends the pod; `unavailable` and `outcome_unknown` are asked again."""
