"""With traces off nothing of OpenTelemetry is loaded; in workers and their zygote nothing of it ever is."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

LOADED = "import sys; print(sorted({name.split('.')[0] for name in sys.modules} & {'opentelemetry', 'google'}))"
ON = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "otlp"}


def loaded_by(statement: str, **environ: str) -> str:
    """Return what of OpenTelemetry a program has loaded after a statement."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", f"{statement}\n{LOADED}"],
        env={**plain, **environ},
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "statement",
    [
        "import agent_sandbox; from agent_sandbox.access import *; from agent_sandbox.tracing import find_tracer; find_tracer()",
        "import agent_sandbox.cli",
        "import pool_manager.app, os; from shared.traces.settings import open_traces; open_traces(os.environ, 's', 'i')",
        "import gateway.app, os; from shared.traces.settings import open_sdk; open_sdk(os.environ, 's', 'i')",
        "import local_node.app",
    ],
)
def test_off_nothing_of_it_is_loaded(statement: str) -> None:
    """It would be 20 MiB and a fifth of a second in each process."""
    assert loaded_by(statement) == "[]"


def test_a_worker_never_loads_it() -> None:
    """Not even where traces are on: it notes spans as plain data, and pool-managers export them."""
    assert loaded_by("import worker_agent; worker_agent.preload()", **ON) == "[]"


def test_on_it_is_loaded() -> None:
    """The other tests here can fail."""
    statement = "import os; from shared.traces.settings import open_traces; assert open_traces(os.environ, 's', 'i')"
    assert "opentelemetry" in loaded_by(statement, **ON)
