"""What a process that must start quickly does not load: halves of libraries that nothing of ours uses.

Each worker pod on Kubernetes starts a Python of its own, and while a pool is filled again its nodes do little else. Standard
library only: called before anything else is imported.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

REFUSED = ("aiohttp", "importlib.metadata", "rich")
"""Asked for where they are installed, and done without: by the NATS client for WebSockets and its own version, by structlog to
show tracebacks to people."""


class Header(StrEnum):
    """Names of headers; the NATS client asks for no more of its JetStream half, which `shared.bus` has no use for."""

    CONSUMER_STALLED = "Nats-Consumer-Stalled"
    DESCRIPTION = "Description"
    STATUS = "Status"


class _JetStream:
    """Finds and makes `nats.js`: a package with `api.Header`, instead of forty dataclasses."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        loader: Any = _JetStream()
        return ModuleSpec(name, loader, is_package=True) if name == "nats.js" else None

    def create_module(self, _spec: ModuleSpec) -> None:
        """Leave it to the import system."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module."""
        module.__dict__["api"] = api = ModuleType("nats.js.api")
        api.__dict__["Header"] = Header


def stay_lean() -> None:
    """Refuse them from now on, in this process."""
    for name in REFUSED:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # how an import is refused
    sys.meta_path.insert(0, _JetStream)
