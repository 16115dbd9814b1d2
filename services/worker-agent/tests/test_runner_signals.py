"""Signals as the runner reads them, from kernels that write them differently."""

from __future__ import annotations

import os
import struct

import pytest

from sandbox_runner import kernel


@pytest.mark.parametrize("padding", [0, 2], ids=["linux", "gvisor"])
def test_a_signal_is_read_whatever_is_behind_it(padding: int) -> None:
    """gVisor writes two bytes too many; a runner that fell over them ended with each session's first task."""
    ours, theirs = os.pipe()
    os.write(theirs, struct.pack("IiiI", 17, 0, 1, 42).ljust(128 + padding, b"\0"))

    assert kernel.read_signals(ours) == [(17, 42)]
    os.close(ours)
    os.close(theirs)


def test_several_signals_are_read_at_once() -> None:
    """Linux writes as many as there are."""
    ours, theirs = os.pipe()
    for number in (15, 17):
        os.write(theirs, struct.pack("IiiI", number, 0, 0, 0).ljust(128, b"\0"))

    assert kernel.read_signals(ours) == [(15, 0), (17, 0)]
    os.close(ours)
    os.close(theirs)
