"""Whether workloads are ready, and if not, why: what `kubectl describe` of several objects would tell, in a line each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from shared.errors import OutcomeUnknown, Unavailable
from shared.kubectl.call import Kubectl, Object

WORKLOADS = "deployments,statefulsets,daemonsets"
POLL_S = 0.5
EVENTS_MAX = 3
"""Of the newest warnings that stand behind what is not ready."""


class Problem(NamedTuple):
    """Why something is not ready."""

    what: str
    """Such as `StatefulSet agent-sandbox/nats`."""
    why: str

    def __str__(self) -> str:
        """As a person reads it."""
        return f"{self.what}: {self.why}"


# --- pure -----------------------------------------------------------------------------------------------------------


def is_ready(workload: Object) -> bool:
    """Return whether a Deployment, StatefulSet or DaemonSet has all pods that it wants, of its newest form."""
    wanted, ready, updated = _counts(workload)
    seen = workload.get("status", {}).get("observedGeneration", 0)
    return seen >= workload["metadata"].get("generation", 0) and min(ready, updated) >= wanted


def pod_problem(pod: Object) -> str:
    """Return why a pod is not ready, or an empty text where it is (or has ended as it should)."""
    status = pod.get("status", {})
    if status.get("phase") == "Succeeded":
        return ""
    for one in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        waiting = one.get("state", {}).get("waiting")
        if waiting and waiting.get("reason") not in (None, "PodInitializing", "ContainerCreating"):
            said = waiting.get("message", "")
            last = (one.get("lastState", {}).get("terminated") or {}).get("exitCode")
            ended = f", ended with {last}" if last is not None else ""
            return f"{one['name']}: {waiting['reason']}{ended}{f': {said}' if said else ''}"
        ended_now = one.get("state", {}).get("terminated")
        if ended_now and ended_now.get("exitCode", 0) != 0:
            return (
                f"{one['name']} ended with {ended_now['exitCode']}: {ended_now.get('reason', '')}"
            )
    conditions = {one["type"]: one for one in status.get("conditions", ())}
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        return f"not scheduled: {scheduled.get('message') or scheduled.get('reason', '')}"
    if conditions.get("Ready", {}).get("status") == "True":
        return ""
    return f"{status.get('phase', 'no phase')}, not ready"


def workload_problems(
    workloads: Iterable[Object], pods: Sequence[Object], events: Sequence[Object] = ()
) -> list[Problem]:
    """Return what is not ready, with the reasons of its pods.

    Args:
        workloads: Deployments, StatefulSets and DaemonSets.
        pods: of their namespaces.
        events: of their namespaces; warnings about a workload or its pods are told.
    """
    found = []
    for one in workloads:
        if is_ready(one):
            continue
        meta = one["metadata"]
        wanted, ready, updated = _counts(one)
        own = [pod for pod in pods if _belongs(pod, one)]
        names = {meta["name"], *(pod["metadata"]["name"] for pod in own)}
        reasons = [
            f"{pod['metadata']['name']}: {why}" for pod in own if (why := pod_problem(pod))
        ] + _warnings(events, meta["namespace"], names)
        head = f"{ready} of {wanted} ready" + (
            "" if updated >= wanted else f", {updated} of the new form"
        )
        found.append(
            Problem(
                f"{one['kind']} {meta['namespace']}/{meta['name']}", "; ".join([head, *reasons])
            )
        )
    return found


def _counts(workload: Object) -> tuple[int, int, int]:
    """Return how many pods are wanted, ready, and of the newest form."""
    spec, status = workload.get("spec", {}), workload.get("status", {})
    if workload["kind"] == "DaemonSet":
        return (
            status.get("desiredNumberScheduled", 0),
            status.get("numberReady", 0),
            status.get("updatedNumberScheduled", 0),
        )
    return spec.get("replicas", 1), status.get("readyReplicas", 0), status.get("updatedReplicas", 0)


def _belongs(pod: Object, workload: Object) -> bool:
    if pod["metadata"]["namespace"] != workload["metadata"]["namespace"]:
        return False
    chosen = workload.get("spec", {}).get("selector", {}).get("matchLabels", {})
    labels = pod["metadata"].get("labels", {})
    return bool(chosen) and all(labels.get(name) == value for name, value in chosen.items())


def _warnings(events: Sequence[Object], namespace: str, names: set[str]) -> list[str]:
    about = [
        one
        for one in events
        if one.get("type") == "Warning"
        and one.get("involvedObject", {}).get("namespace") == namespace
        and one.get("involvedObject", {}).get("name") in names
    ]
    about.sort(key=lambda one: one.get("lastTimestamp") or one.get("eventTime") or "")
    told = dict.fromkeys(f"{one.get('reason', '')}: {one.get('message', '')}" for one in about)
    return list(told)[-EVENTS_MAX:]


# --- looking --------------------------------------------------------------------------------------------------------


def find_problems(kubectl: Kubectl, namespaces: Sequence[str]) -> list[Problem]:
    """Return what is not ready in these namespaces; a namespace without any workload is a problem, too.

    Raises:
        ServiceError: the API server does not answer, or not to us.
    """
    found: list[Problem] = []
    for namespace in namespaces:
        workloads = kubectl.list(WORKLOADS, namespace=namespace)
        if not workloads:
            found.append(Problem(f"Namespace {namespace}", "no workload"))
        if all(is_ready(one) for one in workloads):
            continue
        pods = kubectl.list("pods", namespace=namespace)
        found += workload_problems(workloads, pods, kubectl.list("events", namespace=namespace))
    return found


def wait_ready(
    kubectl: Kubectl,
    namespaces: Sequence[str],
    *,
    within_s: float,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Wait until every workload of these namespaces is ready.

    Args:
        kubectl: how to ask.
        namespaces: where.
        within_s: longest wait, seconds.
        say: told what it still waits for whenever that changes.

    Raises:
        Unavailable: they are not in time; says of each why.
        ServiceError: the API server does not answer, or not to us.
    """
    until, told = time.monotonic() + within_s, ""
    while True:
        try:
            problems = find_problems(kubectl, namespaces)
        except (Unavailable, OutcomeUnknown):
            if time.monotonic() > until:
                raise
        else:
            if not problems:
                return
            waits_for = ", ".join(one.what for one in problems)
            if waits_for != told:
                say(f"waiting for {waits_for}")
                told = waits_for
            if time.monotonic() > until:
                raise Unavailable(
                    f"not ready after {within_s:g} s:\n" + "\n".join(str(one) for one in problems)
                )
        time.sleep(POLL_S)
