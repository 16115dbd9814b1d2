"""Probes and metrics of an embedded cluster in use: everything that is declared is there, with values that are true."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
import time

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families
from tests.e2e.around import around

from agent_sandbox import Client
from agent_sandbox.demo.victims import find_worker
from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.probing import JOBS, url_of
from agent_sandbox.embedded.table import read_table
from shared.metrics import DECLARED, declared
from shared.metrics.declared import Metric, Service
from shared.testing.look import until

Families = dict[str, Family]
ZERO_WHEN_WELL = {
    declared.UNREADY, declared.SHARDS_DOWN, declared.EDGE_HALF_SENT, declared.EDGE_REFUSED,
    declared.EDGE_MESSAGES_REFUSED, declared.HTTP_OPEN, declared.BUS_CONTACT, declared.WAITING,
    declared.GATEWAY_STREAMS, declared.GATEWAY_TENANTS_OLD,
    declared.POOL_RATE, declared.POOL_DISPERSION, declared.POOL_Z, declared.POOL_START_MEAN, declared.POOL_COLD,
    declared.POOL_COLD_PROMISED, declared.POOL_DIFFER,
}  # fmt: skip
"""What a run without faults, of pools without a promise, has no value of, or may be 0."""


def scrape(url: str) -> Families:
    """Read a service's metrics as Prometheus does."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=5)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return {family.name: family for family in text_string_to_metric_families(text)}


async def scrape_all(folder: Folder) -> dict[Service, list[Families]]:
    """Return the metrics of all processes, by service."""
    table = read_table(folder)
    assert table is not None
    found: dict[Service, list[Families]] = {}
    for row in table.rows:
        if row.kind != "server":
            families = await asyncio.to_thread(scrape, url_of(folder, row.name))
            found.setdefault(JOBS[row.kind], []).append(families)
    return found


def total(services: list[Families], metric: Metric, **labels: str) -> float:
    """Return a metric's value over replicas, as its declaration says; of a histogram its count."""
    name = f"{metric.name}_count" if metric.kind == "histogram" else metric.name
    values = [
        sum(
            sample.value
            for sample in families[metric.name.removesuffix("_total")].samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )
        for families in services
    ]
    return max(values) if metric.over == "max" else sum(values)


def ours(services: list[Families]) -> set[str]:
    """Return the names of our own families, those of the process and the interpreter left out."""
    return {name for one in services for name in one if name.startswith("agent_sandbox_")}


async def lose_a_worker(client: Client, folder: Folder) -> None:
    """Run a task whose worker dies in the middle of it."""
    task = await client.start(shell="sleep 1.5", files={"f": b"x"})
    assert await task.started(wait_s=20)
    shown = await client.session(task.session_id).show()
    table = read_table(folder)
    assert shown.record is not None
    assert table is not None
    worker = await asyncio.to_thread(
        find_worker, folder, shown.record.owner or "", table.supervisor.pid
    )
    assert worker is not None
    assert worker.send(signal.SIGKILL)
    assert (await task.result()).ok


async def let_one_wait(client: Client, folder: Folder) -> None:
    """Have one more task than a pool's only pod takes, until that is seen."""
    tasks = [await client.start(shell="sleep 60", pool="narrow") for _ in range(2)]

    async def waits() -> bool:
        managers = (await scrape_all(folder))["pool-manager"]
        return total(managers, declared.WAITING, pool="narrow") >= 1

    await until(waits, within_s=20, seen=lambda: around(client, "narrow", tasks))
    for task in reversed(tasks):  # the one that runs comes last, so that no other begins
        await task.cancel()
        assert (await task.result()).status == "cancelled"


def ask_over_http(folder: Folder) -> None:
    """Run a task through a gateway, and be turned away by it."""
    place = folder.read().gateways[0].removeprefix("http://")
    for token in (folder.token_file.read_text().strip(), "wrong"):
        connection = http.client.HTTPConnection(place, timeout=35)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        body = json.dumps({"kind": "command", "argv": ["true"]})
        connection.request("POST", "/v1/tasks?pool=default", body, headers)
        answer = connection.getresponse()
        assert answer.status in ((401,) if token == "wrong" else (201, 202)), answer.read()
        connection.close()


async def test_after_a_run_every_declared_metric_has_its_value(
    embedded: Folder, client: Client
) -> None:
    """Warm, on demand, with a file, a later task, over HTTP, a worker that dies: what is declared shows all of it."""
    before = await scrape_all(embedded)
    managers = before["pool-manager"]
    began = time.monotonic()
    assert (await client.run(["true"])).ok
    assert (await client.run(["true"], pool="cold")).ok
    session = await client.create_session()  # open to the end: there is to be one
    for _ in range(2):
        assert (await session.exec(["true"])).ok
    await lose_a_worker(client, embedded)
    await let_one_wait(client, embedded)
    await asyncio.to_thread(ask_over_http, embedded)

    async def is_counted() -> bool:
        nonlocal managers
        managers = (await scrape_all(embedded))["pool-manager"]
        return grown(declared.RESULTS) >= 7 and grown(declared.RECOVERY) >= 1

    def grown(metric: Metric, **labels: str) -> float:
        return total(managers, metric, **labels) - total(before["pool-manager"], metric, **labels)

    await until(is_counted, within_s=10)
    took_s = time.monotonic() - began
    assert grown(declared.TTI, pool="cold", path="on-demand") == 1
    assert grown(declared.QUEUE_WAIT, path="bound") >= 1
    assert grown(declared.DETECT) == grown(declared.RECOVERY) == 1
    assert grown(declared.RESTORE) >= 1
    assert grown(declared.DEMAND, pool="cold") == 1
    assert 0 < grown(declared.IDLE, pool="default") < 5 * (took_s + 2)
    after = await scrape_all(embedded)
    await session.close()
    asked = {"method": "POST", "route": "/v1/tasks"}
    assert total(after["gateway"], declared.HTTP_REQUESTS, **asked) >= 1
    assert total(after["gateway"], declared.HTTP_REQUESTS, route="refused", code="401") >= 1
    for service, processes in after.items():
        names = {metric.name for metric in DECLARED[service]}
        assert {
            f"{name}_total" if f"{name}_total" in names else name for name in ours(processes)
        } == names
        for metric in DECLARED[service]:
            if metric not in ZERO_WHEN_WELL:
                assert total(processes, metric) > 0, (service, metric.name)
        assert [total([one], declared.READY) for one in processes] == [1] * len(processes)
