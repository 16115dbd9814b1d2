"""What can go wrong with servers of our own."""

from __future__ import annotations

from shared.errors import Unavailable


class ClusterFailed(Unavailable):
    """A server could not be started, or the cluster did not become ready. The message says what to do about it."""

    code = "cluster_failed"
