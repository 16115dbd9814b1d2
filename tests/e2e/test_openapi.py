"""The OpenAPI document and what a gateway really does: schemathesis asks for all that it says, and for what it forbids."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent_sandbox.embedded.folder import Folder

PROGRAM = Path(sys.executable).parent / "schemathesis"
HOOKS = "openapi_hooks"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "ignored_auth",
)


REQUESTS_MIN = 300
HEAVY = ("create_next", "create_session", "create_task")
"""A task's fields have so many forms that all their combinations would take an hour: these are asked at random alone."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(
            ("--phases=coverage", *(f"--exclude-operation-id={name}" for name in HEAVY)),
            id="every bound",
        ),
        pytest.param(
            ("--phases=fuzzing", "--max-examples=25"), id="at random", marks=pytest.mark.slow
        ),
    ],
)
def test_every_answer_is_in_the_document_and_none_is_a_fault(
    embedded: Folder, tmp_path: Path, asked: tuple[str, ...]
) -> None:
    """No 5xx, no status, type, header or body that is not described, nothing taken that the document forbids."""
    token = embedded.token_file.read_text().strip()
    words = [
        f"{embedded.read().gateways[0]}/v1/openapi.json",
        f"--header=Authorization: Bearer {token}",
        f"--checks={','.join(CHECKS)}",
        "--exclude-path-regex=/output$",  # streams end with their task: tests/e2e/test_streams.py
        "--generation-deterministic",
        "--request-timeout=70",
        "--no-color",
    ]
    told = subprocess.run(
        [PROGRAM, "run", *words, *asked],
        env={**os.environ, "SCHEMATHESIS_HOOKS": HOOKS, "PYTHONPATH": str(Path(__file__).parent)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert told.returncode == 0, told.stdout[-20_000:] + told.stderr
    counted = re.search(r"(\d+) generated, (\d+) passed", told.stdout)
    assert counted is not None, told.stdout[-2_000:]
    assert counted[1] == counted[2]
    assert int(counted[1]) > REQUESTS_MIN, "it asked for something"
