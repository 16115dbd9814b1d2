"""The OpenAPI document and what a gateway really does: schemathesis asks for all that it says, and for what it forbids."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_sandbox.embedded.folder import Folder

PROGRAM = Path(sys.executable).parent / "schemathesis"
HOOKS = "openapi_hooks"
EXAMPLES = 6
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


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_answer_is_in_the_document_and_none_is_a_fault(
    embedded: Folder, tmp_path: Path
) -> None:
    """No 5xx, no status, type, header or body that is not described, nothing taken that the document forbids."""
    token = embedded.token_file.read_text().strip()
    asked = subprocess.run(
        [
            PROGRAM,
            "run",
            f"{embedded.read().gateways[0]}/v1/openapi.json",
            "--header",
            f"Authorization: Bearer {token}",
            "--checks",
            ",".join(CHECKS),
            "--phases",
            "examples,coverage,fuzzing",
            "--max-examples",
            str(EXAMPLES),
            "--generation-deterministic",
            "--exclude-path-regex",
            "/output$",  # streams end with their task: tests/e2e/test_streams_gateway.py
            "--request-timeout",
            "70",
            "--no-color",
        ],
        env={**os.environ, "SCHEMATHESIS_HOOKS": HOOKS, "PYTHONPATH": str(Path(__file__).parent)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=840,
        check=False,
    )
    assert asked.returncode == 0, asked.stdout[-20_000:] + asked.stderr
    assert "No issues found" in asked.stdout, asked.stdout[-2_000:]
