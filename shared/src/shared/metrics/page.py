"""`docs/metrics.md`, made from the declarations."""

from __future__ import annotations

from typing import Final

from shared.metrics.declared import COMMON, DECLARED, LABELS, ON_THE_BUS, Metric

HEAD: Final = """\
# Metrics and probes

Every service answers three paths on a listener of its own, which is for monitoring only (`GET`, no token):

| path | answers |
|---|---|
| `/livez` | 200 `live`; 503 where only a restart helps: the event loop stands still for 10 s |
| `/readyz` | 200 `ready`, and a line for each thing that should be seen to all the same; 503 with one line for each reason why it can not do its work now |
| `/metrics` | all values, in Prometheus' text format or as OpenMetrics |

A service that has lost its NATS servers, or whose server hangs, is *live and not ready* within 4 s, and ready again when
they are back: a restart would mend nothing. A pool-manager is also not ready while no state shard has a leader (which
servers without a majority notice after some 10 s), a client edge while its server takes no clients, a gateway while no
edge does, a keeper while its volume hangs. All three paths are answered by a thread of its own, also while the service is
busy; a process that is stopped as a whole answers nothing.

**Embedded**: the listeners are on free ports of 127.0.0.1, so any number of clusters stand side by side. Where they are
stands in the state folder: `probes/<process>` holds the URL, and `probes/targets.json` all of them as Prometheus'
`file_sd_configs` reads it. `agent-sandbox status` shows what is not ready, and why; a service that is not live, or does
not answer for 15 s, is started anew.

**Elsewhere** a variable says where to listen, as `host:port`: `POOL_PROBES`, `LOCAL_NODE_PROBES`, `CHECKPOINTER_PROBES`,
`EDGE_PROBES`, `KEEPER_PROBES`. Workers
have probes only where `POOL_WORKER_PROBES` is set, which is for pods with a network address of their own: their figures
come from the pool-managers, who hear every result.

**To look at and to be woken by**: `deploy/monitoring` holds Grafana dashboards (`dashboards/`), Prometheus alerts
(`rules.yaml`) and how a cluster's pods are scraped (`scrape.yaml`, which names the labels that both stand on).

Times are seconds. No id is ever a label. `over replicas` says how to put several processes of one kind together: `sum`;
`max`, since each of them tells the whole as it sees it; or `each`, what is true of one process alone. Beside these,
each process exports the usual `process_*`.
"""


def _rows(metrics: tuple[Metric, ...]) -> list[str]:
    head = ["| metric | kind | labels | over replicas | meaning |", "|---|---|---|---|---|"]
    return head + [
        f"| `{metric.name}` | {metric.kind} | {', '.join(f'`{label}`' for label in metric.labels)} | {metric.over} "
        f"| {metric.help} |"
        for metric in metrics
    ]


def metrics_page() -> str:
    """Return the page on metrics as Markdown."""
    everywhere = (*COMMON, *ON_THE_BUS)
    lines = [HEAD, "## Every service", "", *_rows(COMMON), ""]
    lines += ["Those with a connection to NATS (all but client edges):", "", *_rows(ON_THE_BUS), ""]
    for service, metrics in DECLARED.items():
        own = tuple(metric for metric in metrics if metric not in everywhere)
        if own:
            lines += [f"## {service}", "", *_rows(own), ""]
    lines += ["## Labels", "", "| label | values |", "|---|---|"]
    lines += [f"| `{label}` | {values} |" for label, values in LABELS.items()]
    lines += [
        "",
        "A metric holds 500 combinations of label values at most; what comes beyond is counted under `other`.",
    ]
    return "\n".join(lines) + "\n"
