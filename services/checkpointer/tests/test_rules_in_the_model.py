"""The seven rules of publishing and collecting, in every order of what writers, a collector and forks do.

It is the real code that runs, on fakes that give up their turn before each call. The zombie, the successor, the collector
and the fork meet in all ways; then each rule is taken out of the code, and must be missed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkpointer.loops import collect_garbage, commit_snapshot
from checkpointer.testing.actors import (
    OLDER,
    Code,
    back,
    collector,
    first_world,
    fork,
    in_place,
    pin_only,
    without,
    writer,
)
from checkpointer.testing.interleave import Actor, Found, Run, explore, wander
from checkpointer.testing.world import (
    Lost,
    late_network,
)

Scene = Callable[[Code], list[Actor]]
SCENES: dict[str, Scene] = {
    "builds on old, collector": lambda code: [
        writer(code, "late", 1, OLDER),
        collector(code),
    ],
    "heir, collector, fork": lambda code: [writer(code, "heir", 2), collector(code), fork(code)],
    "goes back, collector": lambda code: [back(code), collector(code), collector(code)],
    "zombie, heir, collector": lambda code: [
        writer(code, "zombie", 1),
        writer(code, "heir", 2),
        collector(code),
    ],
}


def begin(scene: Scene, code: Code) -> Callable[[], Run]:
    """Return what begins a run."""
    network = [late_network] if code.lost == "late" else []
    return lambda: Run(first_world(), [*scene(code), *network])


LONG = "zombie, heir, collector"
MARKS = (pytest.mark.slow, pytest.mark.pure)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=MARKS if name == LONG else ()) for name in SCENES]
)
def test_no_order_breaks_anything(name: str) -> None:
    """Whoever lives finds all of his snapshots' packs, whatever the others did when."""
    assert explore(begin(SCENES[name], Code())) > 100


@pytest.mark.parametrize("lost", ["request", "answer", "late"])
def test_no_lost_write_breaks_anything(lost: Lost) -> None:
    """Nor where the first write of each is not answered, and is done, never, or much later."""
    code = Code()
    code.lost = lost
    explore(begin(lambda code: [writer(code, "heir", 2), collector(code)], code))
    explore(begin(lambda code: [collector(code), fork(code)], code))


def everybody(code: Code) -> list[Actor]:
    """Return two of each."""
    writers = [writer(code, "zombie", 1), writer(code, "heir", 2), writer(code, "third", 3, OLDER)]
    return [*writers, collector(code), collector(code), fork(code)]


def test_no_long_run_breaks_anything() -> None:
    """Three owners one after another, two collectors and a fork, in random orders with long pauses."""
    for number, lost in enumerate(("", "request", "answer", "late")):
        code = Code()
        code.lost = lost  # type: ignore[assignment]  # each of them
        for seed in range(500):
            wander(begin(everybody, code)(), 1000 * number + seed)


@pytest.mark.slow
@pytest.mark.pure
@pytest.mark.timeout(900)
def test_no_order_of_all_four_breaks_anything() -> None:
    """The zombie, its heir, a collector and a fork, in every order."""
    code = Code()
    scene = begin(lambda code: [*SCENES[LONG](code), fork(code)], code)
    assert explore(scene) > 50_000


def _code(**what: Any) -> Code:
    code = Code()
    for name, value in what.items():
        setattr(code, name, value)
    return code


LIST = "        candidates = [pack async for pack in self.store.list(folder(tenant, session))]\n"
WRITE = "            seq = await self._heads.write(head, seq)\n"
SWEEP = "        found = sweep(candidates, live)\n"
SAVE = "        snapshot = await _save_without_damage(save, base)\n"
TRIES = "    for _ in range(TRIES_MAX):\n"
RULES: dict[str, Callable[[], Code]] = {
    "0 a writer's write of the head is no compare-and-set": lambda: _code(
        commit=without(
            commit_snapshot,
            (
                "await heads.write(core.added(head, entry, *at), seq)",
                "await heads.write(core.added(head, entry, *at), (await heads.read('', head.session))[1])",
            ),
        )
    ),
    "1 a writer builds on all that it ever saw": lambda: _code(knows_all=True),
    "1 a writer builds on a parent that is no root": lambda: _code(
        commit=without(
            commit_snapshot,
            (
                "base = core.root(head, parent.id) if parent is not None else None",
                "base = parent",
            ),
        )
    ),
    "2 a collector lets go without writing the head": lambda: _code(
        collect=without(collect_garbage, (WRITE, ""))
    ),
    "2 a collector's write of the head is no compare-and-set": lambda: _code(
        collect=without(
            collect_garbage,
            (WRITE, WRITE.replace("seq)", "(await self._heads.read('', session))[1])")),
        )
    ),
    "3 a collector lists after its write": lambda: _code(
        collect=without(collect_garbage, (LIST, ""), (SWEEP, LIST + SWEEP))
    ),
    "4 a writer that lost writes again without uploading again": lambda: _code(
        commit=without(
            commit_snapshot,
            (TRIES, "    made = []\n" + TRIES),
            (
                SAVE,
                "        snapshot = made[0] if made else await _save_without_damage(save, base)\n"
                "        made.append(snapshot)\n",
            ),
        )
    ),
    "5 a writer that lost uploads again under the same names": lambda: _code(names_again=True),
    "whoever goes back keeps a snapshot by its epoch, not its place": lambda: _code(
        kept_for=in_place
    ),
    "6 a fork checks, then pins": lambda: _code(pinned=pin_only, checks_first=True),
}


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_missed(rule: str) -> None:
    """Without it some order leaves somebody with a snapshot of which a pack is gone."""
    code = RULES[rule]()

    def explore_all() -> None:
        for scene in SCENES.values():
            explore(begin(scene, code))

    with pytest.raises(Found, match="refers to a deleted pack"):
        explore_all()
