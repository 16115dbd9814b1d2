"""An API server of Kubernetes that says what a test wants, and a client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.kube.client import Access, KubeApi, open_api
from shared.testing.api_server import ApiServer, kubeconfig


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    """A server that runs."""
    made = ApiServer()
    await made.run()
    yield made
    await made.stop()


@pytest.fixture
async def api(server: ApiServer, tmp_path: Path) -> AsyncIterator[KubeApi]:
    """A client of it."""
    async with open_api(Access(kubeconfig=kubeconfig(tmp_path, server))) as made:
        yield made
