"""Faults of nodes are done by a program that the environment names: here a shell script that notes what it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.testing.node_faults import FAULTS_VARIABLE, FaultFailed, NodeFaults

SCRIPT = """\
#!/bin/sh
echo "$@" >>{log}
[ "$3" != stubborn ] || {{ echo "no such node" >&2; exit 1; }}
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where the script notes its words."""
    return tmp_path / "log"


@pytest.fixture
def faults(tmp_path: Path, log: Path) -> NodeFaults:
    """Faults by the script, as the environment names it."""
    script = tmp_path / "faults"
    script.write_text(SCRIPT.format(log=log))
    script.chmod(0o755)
    found = NodeFaults.from_environment({FAULTS_VARIABLE: f"{script} --quietly"})
    assert found is not None
    return found


def test_without_a_program_there_are_none() -> None:
    """So that tests can skip with that reason."""
    assert NodeFaults.from_environment({}) is None


def test_what_was_done_is_taken_back_at_the_end(faults: NodeFaults, log: Path) -> None:
    """The last first, and nothing twice."""
    with faults.mended():
        faults.do("cut", "n1")
        done = faults.do("poweroff", "n2")
        faults.do("hang", "n3")
        faults.mend("hang", "n3")

    assert done.began_s <= done.ended_s
    words = [line.removeprefix("--quietly ") for line in log.read_text().splitlines()]
    assert words == ["cut n1", "poweroff n2", "hang n3", "resume n3", "start n2", "heal n1"]


def test_a_fault_that_can_not_be_done_says_why_and_the_others_are_taken_back(
    faults: NodeFaults, log: Path
) -> None:
    """A node left cut would spoil every test that follows."""
    faults.do("cut", "n1")
    with pytest.raises(FaultFailed, match="no such node"):
        faults.do("kill", "stubborn")

    with pytest.raises(FaultFailed, match="start stubborn: no such node"):
        faults.mend_all()

    assert log.read_text().splitlines()[-1].endswith("heal n1")
