"""A real OpenTelemetry Collector takes what we export, and has it as it was said.

It is built from its own modules where there is a Go toolchain (`collector/`): OTLP in, a file of JSON lines out.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.traced import PARTS, PROCESS, PUBLISH

from agent_sandbox.embedded.folder import Folder
from shared.testing.look import until

SOURCE = Path(__file__).parent / "collector"
CONFIG = """\
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters: {{file: {{path: "{file}", flush_interval: 100ms}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], exporters: [file]}}}}
"""
POOLS = '[[pool]]\nname = "default"\nstock = 1\n'


class Collector:
    """A collector that runs."""

    def __init__(self, url: str, file: Path) -> None:
        """It listens at `url` and writes into `file`."""
        self.url = url
        self._file = file

    def spans(self) -> list[dict[str, Any]]:
        """Return all that it wrote, each span with its resource's attributes."""
        lines = self._file.read_text().splitlines() if self._file.exists() else []
        return [
            {**span, "resource": _values(group["resource"]["attributes"])}
            for line in lines
            for group in json.loads(line)["resourceSpans"]
            for scope in group["scopeSpans"]
            for span in scope["spans"]
        ]


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    """One that was built from the newest modules that are known to go together."""
    if shutil.which("go") is None:
        pytest.skip("no Go toolchain here")
    built = tmp_path / "otelcol"
    words = ["go", "build", "-o", str(built), "."]
    subprocess.run(words, cwd=SOURCE, check=True, timeout=900)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config, file = tmp_path / "config.yaml", tmp_path / "spans.json"
    config.write_text(CONFIG.format(port=port, file=file))
    running = subprocess.Popen([built, "--config", str(config)])
    try:
        yield Collector(f"http://127.0.0.1:{port}", file)
    finally:
        running.terminate()
        running.wait(20)


@pytest.mark.slow
@pytest.mark.timeout(1200)
async def test_a_real_collector_has_the_whole_trace(
    collector: Collector,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    cli_on: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    """Parents, kinds, status and attributes, as its own exporter writes them."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "200")
    folder, pools = Folder(place / "collected"), place / "collected.toml"
    pools.write_text(POOLS)
    await until(lambda: _answers(collector.url), within_s=30)
    try:
        up = cli_on("up", "--pools", str(pools), "--nodes", "1", "--wait", "45", state=folder.path)
        assert up.returncode == 0, up.stderr
        ran = await asyncio.to_thread(cli_on, "run", "--", "false", state=folder.path)
        wanted = {"run task", PUBLISH, PROCESS, "wait in queue", *PARTS}
        await until(lambda: {span["name"] for span in collector.spans()} >= wanted, within_s=30)
    finally:
        cli_on("down", state=folder.path)
    spans = {span["name"]: span for span in collector.spans()}
    process = spans[PROCESS]

    assert ran.returncode == 1
    assert {span["traceId"] for span in spans.values()} == {process["traceId"]}
    assert process["parentSpanId"] == spans[PUBLISH]["spanId"]
    assert spans[PUBLISH]["parentSpanId"] == spans["run task"]["spanId"]
    assert {spans[name]["parentSpanId"] for name in PARTS} == {process["spanId"]}
    assert (process["kind"], process["status"]) == (5, {"code": 2})  # consumer, error
    assert process["links"][0]["spanId"] == spans[PUBLISH]["spanId"]
    assert _values(process["attributes"])["messaging.system"] == "nats"
    assert process["resource"]["service.name"] == "worker-agent"


def _answers(url: str) -> bool:
    host, port = url.removeprefix("http://").split(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def _values(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    return {pair["key"]: next(iter(pair["value"].values())) for pair in pairs}
