"""Fixtures of the checkpointer's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from checkpointer.testing.s3_server import s3_server


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    """URL of a real S3 server, one for the whole run."""
    with s3_server() as url:
        yield url
