"""A real S3 server for tests: moto's, as a process of its own. It keeps its word; what it stores is gone with it."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from checkpointer.adapters.stores.s3 import S3Address

_RUNNING = re.compile(rb"Running on (http://127\.0\.0\.1:\d+)")
END_S = 5.0


@contextmanager
def s3_server() -> Iterator[str]:
    """Yield the URL of a server that runs while inside."""
    command = [sys.executable, "-u", "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            assert process.stdout is not None
            said = b""
            while not (found := _RUNNING.search(said)):
                line = process.stdout.readline()
                assert line, f"moto did not start: {said.decode(errors='replace')}"
                said += line
            yield found[1].decode()
        finally:
            process.kill()
            process.wait(END_S)


def make_bucket(url: str, name: str) -> S3Address:
    """Make a bucket and return where it is."""
    request = urllib.request.Request(f"{url}/{name}", method="PUT")  # noqa: S310 - http
    with urllib.request.urlopen(request, timeout=10):  # noqa: S310 - likewise
        pass
    return S3Address(
        bucket=name,
        endpoint=url,
        access_key_id="test-key-id",
        secret_access_key="test-secret-key",  # noqa: S106 - this server takes any
    )
