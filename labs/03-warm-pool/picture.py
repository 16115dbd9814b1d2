"""The picture: the curve of latency against pods that idle, and the share that waits."""

from __future__ import annotations

from labs.drawing import Line, over, picture
from labs.frame import Figures


def draw(wall: Figures, answer: Figures) -> str:
    """Return the picture."""
    curve = [*wall["curve"], *answer["curve"]]
    share = [(float(stock), 100.0 * cold) for stock, _, _, cold, _ in curve]
    idle = [(float(stock), waiting) for stock, _, _, _, waiting in curve]
    p50 = [(float(stock), p50_ms) for stock, p50_ms, _, _, _ in curve]
    p95 = [(float(stock), p95_ms) for stock, _, p95_ms, _, _ in curve]
    return picture(
        over("What users wait", "ms", "pods in stock", [Line("p95", p95), Line("median", p50)]),
        over("Who waits for a pod to start", "%", "pods in stock", [Line("cold starts", share)]),
        over("What it is paid with", "pods", "pods in stock", [Line("pods that idle", idle)]),
    )


def tell(wall: Figures, answer: Figures) -> str:
    """Return the curve as a table, for the README."""
    lines = [
        "| pods in stock | median | p95 | wait for a start | pods that idle |",
        "|---|---|---|---|---|",
    ]
    for stock, p50_ms, p95_ms, cold, idle in [*wall["curve"], *answer["curve"]]:
        lines.append(f"| {stock:g} | {p50_ms:g} ms | {p95_ms:g} ms | {cold:.0%} | {idle:.1f} |")
    return "\n".join(lines)
