"""Makes `docs/faults.md` from the list."""

from __future__ import annotations

from shared.failpoints.steps import FORMS, KINDS, NOT_PLACED, STEPS

_HEAD = """\
# Placed faults

Random crashes hide what sits at one step. So every step at which client, worker, pool-manager or checkpointer can lose
something is in one list, `shared/src/shared/failpoints/steps.py`, from which this page is made, and each fault that can
happen there is driven: real processes are killed (SIGKILL), answers are lost, or come late.

```sh
./dev test slow tests/faults                    # some faults at every step, and a sample of pairs
./dev bench faults                              # every fault once, with a table of the seconds to recover
./dev bench faults --only worker.commit         # some of them
./dev bench faults --pairs all                  # all pairs: hours
```

Each scenario tells a story (`benchmarks/faults_parts/stories.py`): a session that is released, woken, cancelled in one
task and slow in another; one-shots beside it, good, bad, and cancelled before they came; refusals. Others are about files
(`saved.py`): rescued from a dead worker, gone back to, forked, collected, deleted. In each the placed fault strikes once.
Afterwards the streams are judged (`shared.testing.checker`): each task has its one result, in order; user code began once
for each claim, and never after the result; no file is lost in silence; no session is left with an owner, no message in a
lane, no pod too many, no data of what has ended. A fault that did not strike fails the scenario, too.

A fault is placed by a file in a folder of plans (`shared.failpoints.PlanFolder`) that processes are told by the settings
`POOL_FAILPOINTS` (pool-managers, and the workers that they start) and `CHECKPOINTER_FAILPOINTS`, or the variable
`AGENT_SANDBOX_FAILPOINTS` (clients). Without it, nothing stands between a loop and its port. All faults at the steps of a
save, a restore and a rescue are driven by `services/checkpointer/tests/test_placed_faults.py` as well, where snapshots are
looked at to the byte.

## What can happen
"""
_MIDDLE = """
Not each of it everywhere: a read has no late effect, and nothing that is only said is answered.

## Where
A step is a call: `<service>.<module that calls>.<method of the port>`, with `@word` for calls about something so called.

| step | what it does | part of | faults |
|---|---|---|---|
"""
_END = """
## Where not
| call | why |
|---|---|
"""


def faults_page() -> str:
    """Return the page as Markdown."""
    kinds = "".join(f"- **{_words(kind)}**: {said}\n" for kind, said in KINDS.items())
    rows = "".join(
        f"| `{step.name}` | {step.what} | {step.act} | {', '.join(map(_words, FORMS[step.form]))} |\n"
        for step in STEPS
    )
    rest = "".join(f"| `{name}` | {why} |\n" for name, why in NOT_PLACED.items())
    return _HEAD + kinds + _MIDDLE + rows + _END + rest


def _words(kind: str) -> str:
    return kind.replace("_", " ")
