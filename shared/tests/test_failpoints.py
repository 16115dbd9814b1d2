"""Placed faults: each kind does what it says, once, and nothing is in the way without plans."""

from __future__ import annotations

import ast
import asyncio
import itertools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shared.errors import OutcomeUnknown, Unavailable
from shared.failpoints import STEPS, Failpoints, Plan, PlanFolder
from shared.failpoints.steps import BY_NAME, NOT_PLACED
from shared.testing.look import until

ROOT = Path(__file__).parents[2]
SOURCES = {
    "worker": ROOT / "services/worker-agent/src/worker_agent",
    "pool_manager": ROOT / "services/pool-manager/src/pool_manager",
}
SYNCHRONOUS = {
    "age_s", "count_changes", "lost", "prepare", "close", "hold", "token", "message_id", "pod_spec", "said",
}  # fmt: skip
"""Members of ports without an outcome: they are local, or the process' own end."""


class Store:
    """A port that keeps what it did."""

    def __init__(self) -> None:
        """Have done nothing."""
        self.done: list[str] = []

    async def write(self, session: str, _seq: int) -> int:
        """Do it."""
        self.done.append(f"write {session}")
        return len(self.done)

    async def read(self, session: str) -> list[str]:
        """Look."""
        return [*self.done, session]

    async def ack(self) -> None:
        """Say it."""
        self.done.append("ack")


@pytest.fixture
def plans(tmp_path: Path) -> PlanFolder:
    """An empty folder of plans."""
    folder = PlanFolder(tmp_path)
    folder.make()
    return folder


def claimer(folder: Path, store: Store) -> Store:
    """Return the store as the worker's claim sees it."""
    return Failpoints(str(folder), "worker", "p").at("claim", store)


def place(plans: PlanFolder, step: str, kind: Any, **more: Any) -> None:
    """Place one fault."""
    plans.place(Plan(name="one", step=step, kind=kind, **more))


def test_without_a_folder_nothing_stands_between_a_loop_and_its_port() -> None:
    """In production the very same object comes back."""
    store = Store()

    assert Failpoints(None, "worker").at("claim", store) is store


@pytest.mark.parametrize("armed", [False, True])
def test_a_place_that_the_list_does_not_know_is_an_error(tmp_path: Path, armed: bool) -> None:
    """Nothing would ever happen at a misspelt place; so it is found out in any process, not in a drive alone."""
    with pytest.raises(KeyError):
        Failpoints(str(tmp_path) if armed else None, "worker").at("clam", Store())


def test_what_can_not_happen_at_a_step_can_not_be_placed(plans: PlanFolder) -> None:
    """A read has no effect that could be late."""
    with pytest.raises(ValueError, match="effect_late"):
        place(plans, "worker.claim.read", "effect_late")


async def test_a_lost_answer_comes_after_the_deed(plans: PlanFolder, tmp_path: Path) -> None:
    """Once; the next call is answered."""
    store = Store()
    placed = claimer(tmp_path, store)
    place(plans, "worker.claim.write", "answer_lost")

    with pytest.raises(OutcomeUnknown):
        await placed.write("s", 0)

    assert store.done == ["write s"]
    assert plans.fired("one") is not None
    assert await placed.write("s", 1) == 2


async def test_a_lost_request_does_nothing(plans: PlanFolder, tmp_path: Path) -> None:
    """And its caller waits for the answer as long as it ever does."""
    store = Store()
    place(plans, "worker.claim.write", "request_lost")

    with pytest.raises(OutcomeUnknown):
        await claimer(tmp_path, store).write("s", 0)

    assert store.done == []


async def test_a_late_effect_comes_between_the_look_and_the_act(
    plans: PlanFolder, tmp_path: Path
) -> None:
    """The caller read that nothing was done; when it acts on that, it was done."""
    store = Store()
    placed = claimer(tmp_path, store)
    place(plans, "worker.claim.write", "effect_late")
    with pytest.raises(OutcomeUnknown):
        await placed.write("s", 0)

    seen = await placed.read("s")

    assert seen == ["s"]
    assert store.done == ["write s"]


async def test_a_read_is_lost_as_unavailable_or_old(plans: PlanFolder, tmp_path: Path) -> None:
    """As the bus says it; what comes late is what was there when it was asked."""
    store = Store()
    placed = claimer(tmp_path, store)
    place(plans, "worker.claim.read", "answer_lost")
    with pytest.raises(Unavailable):
        await placed.read("s")
    plans.remove("one")
    plans.place(Plan(name="two", step="worker.claim.read", kind="answer_late"))
    reading = asyncio.create_task(placed.read("s"))
    await until(lambda: plans.fired("two"))
    await placed.write("s", 0)

    assert await reading == ["s"]


async def test_only_calls_about_the_named_things_count(plans: PlanFolder, tmp_path: Path) -> None:
    """And only the n-th of them meets the fault."""
    placed = claimer(tmp_path, Store())
    place(plans, "worker.claim.write", "answer_lost", about=("mine",), nth=2)

    await placed.write("other", 0)
    await placed.write("mine", 0)
    with pytest.raises(OutcomeUnknown):
        await placed.write("mine", 0)

    assert plans.came_by("one") == 2


@pytest.mark.parametrize("order", list(itertools.permutations((1, 2, 3))))
async def test_each_of_several_plans_counts_every_coming_by(
    plans: PlanFolder, tmp_path: Path, order: tuple[int, ...]
) -> None:
    """The second is for the second time, also when the first one struck at the first."""
    placed = claimer(tmp_path, Store())
    for nth, name in enumerate(order, start=1):
        plan = Plan(name=f"{name}", step="worker.claim.write", kind="answer_lost", nth=nth)
        plans.place(plan)

    for _ in range(3):
        with pytest.raises(OutcomeUnknown):
            await placed.write("s", 0)

    assert await placed.write("s", 0) == 4


async def test_of_two_plans_for_the_same_call_the_second_strikes_at_the_next(
    plans: PlanFolder, tmp_path: Path
) -> None:
    """Neither is lost by the other: each strikes, once."""
    placed = claimer(tmp_path, Store())
    for name in ("one", "two"):
        plans.place(Plan(name=name, step="worker.claim.write", kind="answer_lost"))

    for _ in range(2):
        with pytest.raises(OutcomeUnknown):
            await placed.write("s", 0)

    assert plans.fired("one") is not None
    assert plans.fired("two") is not None
    assert await placed.write("s", 0) == 3


@pytest.mark.parametrize(("kind", "done"), [("crash_before", ""), ("crash_after", "done")])
def test_a_crash_is_a_kill(plans: PlanFolder, tmp_path: Path, kind: str, done: str) -> None:
    """Of the real process, before or after the deed; nothing cleans up behind it."""
    place(plans, "worker.claim.ack", kind, about=("p",))
    program = (
        "import asyncio, sys, pathlib\n"
        "from shared.failpoints import Failpoints\n"
        "class Port:\n"
        "    async def ack(self): pathlib.Path(sys.argv[2]).write_text('done')\n"
        "asyncio.run(Failpoints(sys.argv[1], 'worker', 'p').at('claim', Port()).ack())\n"
    )
    deed = tmp_path / "deed"
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), str(deed)], check=False, timeout=30
    )

    assert ran.returncode == -9
    assert (deed.read_text() if deed.exists() else "") == done


# ---------------------------------------------------------------------------------------------------------- the list
def _port_methods(service: str) -> set[str]:
    """Return the methods of a service's ports that have an outcome."""
    single, package = SOURCES[service] / "ports.py", SOURCES[service] / "ports"
    modules = [single] if single.exists() else list(package.glob("*.py"))
    return {
        node.name
        for module in modules
        for holder in ast.walk(ast.parse(module.read_text()))
        if isinstance(holder, ast.ClassDef)
        for node in holder.body
        if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef)
        and node.name not in SYNCHRONOUS
        and not any("property" in ast.unparse(one) for one in node.decorator_list)
    }


def _calls(path: Path, methods: set[str]) -> set[str]:
    """Return which of these methods a module calls on something that it was given."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner = ast.unparse(node.func.value)
        if node.func.attr in methods and re.search(PORTS, owner):
            found.add(node.func.attr)
    return found


PORTS = r"(^|\.|_)(truth|queue|contact|voice|sandbox|delivery|slots|stores|pods|workers|replies|leaders|bus|objects|workspaces)$"


@pytest.mark.parametrize("service", SOURCES)
def test_every_call_of_a_port_is_a_step(service: str) -> None:
    """A new call that has an outcome needs a row in the list, or a reason why it has none."""
    methods = _port_methods(service)
    made = {
        f"{service}.{path.stem}.{method}"
        for path in (SOURCES[service] / "loops").glob("*.py")
        for method in _calls(path, methods)
    }
    listed = {f"{step.service}.{step.place}.{step.method}" for step in STEPS}
    excused = {name.partition("@")[0] for name in NOT_PLACED}

    assert made - listed - excused == set()
    assert (
        methods - {name.split(".")[2].partition("@")[0] for name in [*BY_NAME, *NOT_PLACED]}
        == set()
    )


@pytest.mark.parametrize("step", [s for s in STEPS if s.service in SOURCES], ids=lambda s: s.name)
def test_every_step_is_in_the_code(step: Any) -> None:
    """The loop that a row names knows the method, and the port has it."""
    folder = SOURCES[step.service]
    module = folder / "app.py" if step.place == "app" else folder / f"loops/{step.place}.py"

    assert step.method in _port_methods(step.service)
    assert re.search(rf"\b{step.method}\(", module.read_text())


def test_what_leads_to_a_step_can_happen() -> None:
    """Each fault that a row names as leading there is itself in the list."""
    for step in STEPS:
        for fault in step.after:
            name, _, kind = fault.partition(":")
            assert kind in BY_NAME[name].kinds
