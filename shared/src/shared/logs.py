"""Logging: structlog to stdout, JSON lines for machines, colour on a terminal.

Events are `noun.verb_past` with constant text; data goes into keys. Payloads, environments and secrets are never
logged.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import structlog

Source = Callable[[], dict[str, str]]
_sources: list[Source] = []
_encoder = msgspec.json.Encoder(enc_hook=repr)
_ways: list[tuple[str, bool]] = []
"""The (level, for a terminal) that is set up."""


def _to_json(_logger: Any, _name: str, event: structlog.typing.EventDict) -> str:
    return _encoder.encode(event).decode()


def add_source(source: Source) -> None:
    """Put what `source` returns on every later line: ids of the span that the program is in, say."""
    if source not in _sources:
        _sources.append(source)


def _add_sources(
    _logger: Any, _name: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    for source in _sources:
        event.update(source())
    return event


def configure(*, service: str, level: str = "info", instance: str = "") -> None:
    """Set up logging for this process.

    Args:
        service: the service's name, on each line.
        level: least level shown: debug, info, warning or error.
        instance: which of several, on each line where given.
    """
    way = (level, sys.stdout.isatty())
    if _ways[-1:] != [way]:  # a forked child finds it done by its parent
        _set_up(level, human=way[1])
        _ways[:] = [way]
    structlog.contextvars.clear_contextvars()
    bound = {"service": service} | ({"instance": instance} if instance else {})
    structlog.contextvars.bind_contextvars(**bound)


def _set_up(level: str, *, human: bool) -> None:
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _add_sources,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.dev.ConsoleRenderer() if human else _to_json,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        # The stream is looked up at each line: a forked child may have been given another one.
        logger_factory=structlog.WriteLoggerFactory() if human else structlog.PrintLoggerFactory(),
        cache_logger_on_first_use=False,
    )


def get(name: str) -> structlog.typing.FilteringBoundLogger:
    """Return a logger that puts `name` (the module) on each line."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(module=name)
    return logger


def bind(**values: str | int) -> None:
    """Put these values on every later line of this context."""
    structlog.contextvars.bind_contextvars(**values)
