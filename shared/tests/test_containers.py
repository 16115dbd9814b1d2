"""Asking for a Docker engine where there is none."""

from __future__ import annotations

import gc

import pytest

from shared.testing import containers


def test_an_engine_that_is_not_there_leaves_no_socket_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a socket, closed whenever memory is tidied, would fail whatever test runs then."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///there/is/no.sock")

    assert "no Docker engine answers" in (containers.why_not() or "")
    gc.collect()
