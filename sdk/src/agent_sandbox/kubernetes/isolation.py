"""What the RuntimeClasses and nodes of a cluster mean for the isolation of sandboxes."""

from __future__ import annotations

from agent_sandbox.checkup.verdict import Check, fail, ok, warn
from agent_sandbox.kubernetes.facts import Facts

CLASSES = {"oci": "", "gvisor": "gvisor", "kata": "kata"}
"""Isolation class -> RuntimeClass, as `deploy/base` names them; none: the nodes' own runtime."""


def unseen(facts: Facts, name: str, field: str) -> Check:
    """Return the check of what could not be seen."""
    return warn(
        name,
        f"not seen: {facts.errors.get(field, 'not looked at')}",
        "have the context's user allowed to read it, or ask somebody who is",
    )


def judge_isolation(facts: Facts) -> Check:
    """Judge which classes pods can have here, and whether pools promise one that is not."""
    if facts.runtimes is None or facts.nodes is None:
        field = "runtimes" if facts.runtimes is None else "nodes"
        return unseen(facts, "isolation", field)
    found = {name: _why_not(facts, runtime) for name, runtime in CLASSES.items()}
    there = [name for name, why in found.items() if not why]
    promised = {
        pool.pool: found[pool.isolation]
        for pool in (facts.pools.pools if facts.pools else ())
        if found.get(pool.isolation)
    }
    if promised:
        return fail(
            "isolation",
            f"promised and not there: {', '.join(promised)}",
            "; ".join(f"pool {pool}: {why}" for pool, why in promised.items()),
            found,
        )
    if there == ["oci"]:
        return warn(
            "isolation",
            "oci alone: sandboxes share the nodes' kernel",
            "for untrusted code install gVisor on the nodes (https://gvisor.dev/docs/user_guide/containerd) "
            "and apply deploy/runtime-classes/gvisor.yaml",
            found,
        )
    return ok("isolation", ", ".join(there), found)


def _why_not(facts: Facts, runtime: str) -> str:
    """Return why a class is not there, or an empty text."""
    nodes, runtimes = facts.nodes or (), {one.name: one for one in facts.runtimes or ()}
    if not runtime:
        return ""
    if runtime not in runtimes:
        return f"no RuntimeClass {runtime}"
    wanted = runtimes[runtime].selector
    fitting = [node for node in nodes if wanted.items() <= node.labels.items()]
    if any(node.ready for node in fitting):
        return ""
    labels = ",".join(f"{name}={value}" for name, value in wanted.items())
    if fitting:
        return f"no node of it is ready: {', '.join(node.name for node in fitting)}"
    return f"no node has its label: kubectl label node NAME {labels}"
