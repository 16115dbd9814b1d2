"""What the two processes of a pod load: each pod pays for it with CPU at its start, and with memory while it waits."""

from __future__ import annotations

import subprocess
import sys

import pytest
from nats.js import api

from shared import lean

NEVER = (
    "aiohttp", "email.parser", "importlib.metadata", "kubernetes", "kubernetes_asyncio", "local_node", "nats.js.client",
    "nats.js.manager", "opentelemetry", "prometheus_client", "rich", "sandbox_runner.loop", "shared.kube", "shared.metrics",
    "shared.probes", "tomllib",
)  # fmt: skip
NEVER_IN_A_SANDBOX = ("asyncio", "logging", "msgspec", "pathlib", "shared", "ssl", "subprocess", "worker_agent")  # fmt: skip


def loaded_by(statement: str) -> set[str]:
    """Return the modules that an interpreter has loaded after a statement."""
    code = f"{statement}\nimport sys\nprint(*(n for n, m in sys.modules.items() if m is not None))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50
    )
    return set(done.stdout.splitlines()[-1].split())


def test_a_sidecar_loads_nothing_that_it_has_no_use_for() -> None:
    """A quarter of its start, measured."""
    loaded = loaded_by(
        "from shared.lean import stay_lean; stay_lean(); import worker_agent.sidecar.run"
    )

    assert {"shared.bus", "nats.aio.client", "worker_agent.app"} <= loaded
    assert loaded.isdisjoint(NEVER)


def test_a_sandbox_s_first_process_loads_the_standard_library_s_smallest_parts() -> None:
    """It is started beside each sidecar, and its memory is the sandbox's."""
    loaded = loaded_by("import sandbox_init.start")

    assert "sandbox_runner.loop" in loaded
    assert loaded.isdisjoint(NEVER_IN_A_SANDBOX)


def test_the_socket_is_there_before_anything_heavy_is_loaded() -> None:
    """A sandbox whose container comes up first would poll for it, and a restarted sidecar would be slow to say no."""
    loaded = loaded_by("import worker_agent.sidecar.boot")

    assert loaded.isdisjoint({*NEVER_IN_A_SANDBOX} - {"shared", "worker_agent"})


@pytest.mark.parametrize("header", lean.Header)
def test_the_headers_are_the_library_s(header: lean.Header) -> None:
    """Another version of it might mean others."""
    assert api.Header[header.name].value == header.value
