"""What the kernel has killed for memory, as a container's own cgroup says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_runner.memory import Kills


@pytest.mark.parametrize(
    "form",
    [
        "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n",
        "low 0\nhigh 7\nmax 9\noom 3\noom_kill {}\noom_group_kill 4\n",
    ],
)
def test_each_kill_is_told_once_and_those_before_never(tmp_path: Path, form: str) -> None:
    """Both versions of cgroups write it so."""
    place = tmp_path / "events"
    place.write_text(form.format(2))
    kills = Kills((str(tmp_path / "absent"), str(place)))

    told = [kills.any_new()]
    for count in (3, 3, 5):
        place.write_text(form.format(count))
        told.append(kills.any_new())

    assert told == [False, True, False, True]


def test_where_nothing_counts_nothing_was_killed(tmp_path: Path) -> None:
    """A sandbox in gVisor, or a file that says something else."""
    (tmp_path / "other").write_bytes(b"\xff\xfe oom_kill x")
    assert not Kills((str(tmp_path / "absent"), str(tmp_path / "other"))).any_new()
