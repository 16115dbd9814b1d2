"""What the isolation classes and control groups of this machine mean."""

from __future__ import annotations

from agent_sandbox.checkup.facts import Facts
from agent_sandbox.checkup.verdict import Check, fail, ok, warn
from agent_sandbox.embedded.pools import NAMED_ONLY
from shared.pools import ISOLATION_CLASSES

WEAKER = ("landlock",)
"""Classes that isolate, with less than namespaces give."""
CONTROLLERS = ("memory", "pids", "cpu")


def judge_isolation(facts: Facts) -> Check:
    """Judge which class `auto` would take, and say why a stronger one is not there."""
    if facts.machine is None:
        return fail("isolation", facts.machine_error, "mend what is said above and ask again")
    classes = facts.machine.isolation
    there = [
        name for name in ISOLATION_CLASSES if classes.get(name) == "" and name not in NAMED_ONLY
    ]
    if not there:
        return fail(
            "isolation",
            "this machine can isolate nothing",
            _advice(facts, *WEAKER, "namespace"),
            classes,
        )
    found = f"{there[-1]} (the strongest of {', '.join(reversed(there))})"
    if there[-1] in WEAKER:
        return warn(
            "isolation",
            found,
            "files and network are shut, but sandboxes see the machine's processes; for namespaces: "
            + _advice(facts, "namespace"),
            classes,
        )
    return ok("isolation", found, classes)


def judge_groups(facts: Facts) -> Check:
    """Judge which limits the kernel itself holds."""
    if facts.machine is None:
        return fail("cgroups", facts.machine_error, "mend what is said above and ask again")
    there, missing = facts.machine.controllers, facts.machine.missing
    if not missing:
        return ok("cgroups", ", ".join(name for name in CONTROLLERS if name in there))
    kept = (
        "limits are held by rlimits, and by the sidecar's own measuring, which ends a sandbox a moment after it passed "
        "them; for the kernel's own: "
    )
    if not facts.is_root:
        how = "run as root"
        if not facts.in_container:
            how += ", or `systemd-run --user --scope -p Delegate=yes agent-sandbox up`"
    elif facts.in_container:
        how = "run the container with writable control groups (--privileged)"
    else:
        how = "mount the controllers writable"
    found = f"without {', '.join(name for name in CONTROLLERS if name in missing)}"
    return warn("cgroups", found, kept + how, missing)


def _advice(facts: Facts, *wanted: str) -> str:
    """Return what to do to have one of the wanted classes."""
    reasons = facts.machine.isolation if facts.machine else {}
    found = []
    for name in wanted:
        why = reasons.get(name, "")
        if "chmod o+x" in why:
            found.append(why)
        elif "interpreter is not readable" in why:
            found.append(
                f"{name}: install Python where every user can read it, not in a home folder, or run as an ordinary user"
            )
        elif name == "namespace":
            found.append(_for_namespaces(facts))
        elif not facts.has_landlock:
            found.append(
                f"{name}: a kernel of 5.13 or newer with `landlock` in its `lsm=` (see /sys/kernel/security/lsm)"
            )
        elif why:
            found.append(f"{name}: {why}")
    return "; ".join(dict.fromkeys(found))


def _for_namespaces(facts: Facts) -> str:
    if facts.in_container:
        return (
            "start the container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
            "--cap-add SYS_ADMIN, or --privileged"
        )
    if facts.switches.get("user.max_user_namespaces") == 0:
        return "as root: sysctl -w user.max_user_namespaces=15000"
    if facts.switches.get("kernel.unprivileged_userns_clone") == 0:
        return "as root: sysctl -w kernel.unprivileged_userns_clone=1"
    if facts.switches.get("kernel.apparmor_restrict_unprivileged_userns") == 1:
        return "as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    if not facts.is_root:
        return "run as root, or allow this user to make user namespaces"
    return (
        "the right to make namespaces (CAP_SYS_ADMIN, no seccomp filter against unshare and mount)"
    )
