"""What services hold, and how it grows in a run without faults."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from chaos.adapters.usage import held_by, size_kib
from chaos.core.growth import growth_of, slope
from chaos.core.report.data import conclude
from chaos.core.report.page import page
from chaos.core.rows import Held, Nemesis, Usage
from chaos.testing.made import Made

HOUR_S = 3600.0


def run_of(hours: float, mib_per_h: float) -> Made:
    """Return a run in which two servers grow; in its first minutes they grow much faster."""
    made = Made()
    made.turn()
    for step in range(101):
        at_s = step / 100 * hours * HOUR_S
        grown = 50.0 if at_s else 0.0
        memory = int(1024 * (100 + grown + mib_per_h / 2 * at_s / HOUR_S))
        held = Held(kind="server", memory_kib=memory, files=20, disk_kib=int(at_s))
        made.rows.append(Usage(time=at_s, services={"nats-1": held, "nats-2": held}))
    made.now = hours * HOUR_S
    return made


def test_the_growth_of_all_processes_of_a_kind_is_a_slope_after_the_beginning() -> None:
    """What is built up at the beginning is none."""
    (one,) = growth_of(run_of(2.0, 6.0).close())

    assert (one.kind, one.processes, one.files, one.files_per_h) == ("server", 2, 40, 0)
    assert one.memory_mib_per_h == pytest.approx(6.0, rel=0.01)
    assert one.disk_mib_per_h == pytest.approx(2 * HOUR_S / 1024, rel=0.01)


def test_a_run_with_a_fault_tells_no_growth() -> None:
    """Processes were replaced in it."""
    made = run_of(1.0, 6.0)
    made.rows.append(Nemesis(time=9.0, type="inject", fault="nodes-killed", targets=("n",)))

    assert growth_of(made.close()) == ()


def test_a_kind_whose_processes_were_replaced_or_not_seen_tells_no_growth() -> None:
    """A new one begins small: that is no slope. Others tell theirs."""
    for spoiled in ({"pid": 9}, None):
        made = run_of(1.0, 6.0)
        place = next(at for at, row in enumerate(made.rows) if row.time > HOUR_S / 2)
        other = Held(kind="gateway", pid=3, memory_kib=1024, files=5)
        for at, row in enumerate(made.rows):
            if isinstance(row, Usage):
                services = row.services | {"gateway-1": other}
                if at == place and spoiled:
                    services["nats-2"] = replace(services["nats-2"], **spoiled)
                elif at == place:
                    del services["nats-2"]
                made.rows[at] = replace(row, services=services)

        assert [one.kind for one in growth_of(made.close())] == ["gateway"]


def test_growth_stands_in_the_report() -> None:
    """With its sign."""
    text = page(conclude(run_of(2.0, 6.0).close()))

    assert "Growth after the first quarter" in text
    assert ">+6.0<" in text


def test_a_process_and_a_folder_are_measured(tmp_path: Path) -> None:
    """This one, and one with a file in a folder below."""
    before = held_by(os.getpid())
    (tmp_path / "below").mkdir()
    with (tmp_path / "below" / "file").open("wb") as file:
        file.write(b"x" * 100_000)
        file.flush()
        after = held_by(os.getpid())

    assert after[1] == before[1] + 1
    assert after[0] > 1024
    assert 96 <= size_kib(tmp_path) <= 200
    assert slope([(1.0, 5.0)]) == 0.0
    with pytest.raises(OSError, match="No such file"):
        held_by(1 << 30)
