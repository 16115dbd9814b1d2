"""Names of Kubernetes as parts of our subjects."""

from __future__ import annotations

import re
from typing import Final

from shared.errors import InvalidMessage

_NODE: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")


def node_token(name: str) -> str:
    """Return a Kubernetes node's name as one token of a subject: a dot, which would end the token, becomes an underscore.

    No node's name holds an underscore, so two nodes never share a token.

    Raises:
        InvalidMessage: no node is called so.
    """
    if not _NODE.fullmatch(name):
        raise InvalidMessage(f"node: no name of a Kubernetes node: {name[:80]!r}")
    return name.replace(".", "_")
