"""What people, tests and benchmarks do with a Kubernetes cluster: through `kubectl`, with the rights of whoever calls it."""

from shared.kubectl.call import Kubectl, Object, Version, server_version
from shared.kubectl.forward import forwarded
from shared.kubectl.rollout import (
    Problem,
    is_ready,
    pod_problem,
    wait_ready,
    workload_problems,
)

__all__ = [
    "Kubectl",
    "Object",
    "Problem",
    "Version",
    "forwarded",
    "is_ready",
    "pod_problem",
    "server_version",
    "wait_ready",
    "workload_problems",
]
