"""The file that says what worker pods on Kubernetes have in common."""

from __future__ import annotations

import pytest

from pool_manager.core.pod_template import parse_template
from shared.errors import InvalidMessage

SMALLEST = """
namespace = "pods"
worker_image = "agent-sandbox/worker:1"
sandbox_image = "agent-sandbox/sandbox:1"
nats_servers = ["nats://nats:4222"]
"""


def test_a_template_needs_a_place_two_images_and_servers() -> None:
    """Everything else has a default."""
    template = parse_template(SMALLEST)
    assert template.namespace == "pods"
    assert template.runtime_classes["gvisor"] == "gvisor"
    for line in SMALLEST.split("\n")[1:-1]:
        with pytest.raises(InvalidMessage, match=line.split(" ")[0]):
            parse_template(SMALLEST.replace(line, ""))


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("worker_imag = 'x'", "worker_imag"),
        ("capacity = 0", "capacity"),
        ("image_pull_policy = 'Sometimes'", "image_pull_policy"),
        ("service_account = 'Not A Name'", "service_account"),
        ("= 3", "pod template"),
    ],
)
def test_what_is_wrong_with_a_template_is_named(line: str, named: str) -> None:
    """A misspelt field would be a default in silence."""
    with pytest.raises(InvalidMessage, match=named):
        parse_template(SMALLEST + line)
