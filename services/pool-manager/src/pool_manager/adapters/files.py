"""Files that a pool-manager reads once, at its start."""

from __future__ import annotations

from pathlib import Path

import msgspec

from pool_manager.core.pod_template import PodTemplate, parse_template
from shared.errors import InvalidMessage
from shared.identity import WorkerSigner
from shared.pools import PoolSpec, parse_pools


def read_pools(path: Path) -> tuple[PoolSpec, ...]:
    """Read the pool declarations.

    Raises:
        InvalidMessage: names what is wrong.
    """
    return parse_pools(path.read_text())


def read_template(path: Path) -> PodTemplate:
    """Read what all pods of a Kubernetes cluster have in common.

    Raises:
        InvalidMessage: names what is wrong.
    """
    return parse_template(path.read_text())


def read_signer(path: Path) -> WorkerSigner:
    """Read the key that mints the workers' credentials.

    Raises:
        InvalidMessage: the file is damaged.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=WorkerSigner)
    except (msgspec.DecodeError, msgspec.ValidationError) as exc:
        raise InvalidMessage(f"{path} holds no signer: {exc}") from exc
