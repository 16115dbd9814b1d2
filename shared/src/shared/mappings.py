"""The account's subject mappings as data: how clients' subjects reach the streams."""

from __future__ import annotations

from typing import Any

from shared import subjects
from shared.classes import CLIENT_CLASSES
from shared.ids import SHARDS

SHARD_WEIGHTS = (34, 33, 33)
"""Percent of new sessions that go to each queue shard."""


def account_mappings() -> dict[str, list[dict[str, Any]]]:
    """Return the account's subject mappings: how clients' subjects reach the streams.

    `task` spreads over the queue shards by weight; `session` and `result` go to the session's home,
    `chunk` to the stream that its subject names.
    """
    tail = "{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}"
    direct = "$JS.API.DIRECT.GET.{{partition(3,2)}}.s.{{partition(3,2)}}.done." + tail
    mappings = {
        # One mapping for each class that clients may use, so that no subject of theirs leads to `recovery`.
        f"task.*.*.{klass}": [
            {
                "subject": f"q.{shard}.{{{{wildcard(1)}}}}.{{{{wildcard(2)}}}}.{klass}",
                "weight": weight,
            }
            for shard, weight in zip(range(SHARDS), SHARD_WEIGHTS, strict=True)
        ]
        for klass in CLIENT_CLASSES
    }
    mappings["session.*.*.*"] = [{"subject": "in.{{partition(3,2)}}." + tail, "weight": 100}]
    mappings["result.*.*.*"] = [{"subject": direct, "weight": 100}]
    for shard in range(SHARDS):
        chunk = f"$JS.API.DIRECT.GET.{subjects.object_stream(shard)}.object.{shard}." + tail
        mappings[f"chunk.{shard}.*.*.*"] = [{"subject": chunk, "weight": 100}]
    return mappings
