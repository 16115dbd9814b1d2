"""A store that fails: what is tried again, under which name, for how long, and what is known of it meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from checkpointer.adapters.stores.local import LocalStore
from checkpointer.core.patience import WAIT_MAX_S, wait_s
from checkpointer.loops import patient_store
from checkpointer.loops.patient_store import PatientStore
from checkpointer.ports.blobs import PackMissing
from checkpointer.testing.fault_store import Fault, FaultStore, at
from shared.errors import NotFound, Unavailable
from shared.testing.wait import until


@pytest.fixture
async def faults(tmp_path: Path) -> AsyncIterator[FaultStore]:
    """A folder whose calls can fail."""
    store = await LocalStore.open(tmp_path, "this")
    yield FaultStore(store)
    await store.close()


async def test_an_upload_is_tried_again_under_a_new_name_each_time(faults: FaultStore) -> None:
    """Refused, stored without an answer, then stored: what the second try left is nobody's."""
    hows = ("before", "after")
    faults.plan = lambda number, _verb, _key: Fault(how=hows[number]) if number < 2 else None
    key = await PatientStore(faults).upload("acme", "session01", b"content")

    tried = [name for verb, name in faults.calls if verb == "put"]
    assert len(set(tried)) == len(tried) == 3
    assert key == tried[2]
    assert {pack.key async for pack in faults.list()} == set(tried[1:])


async def test_an_upload_ends_at_its_time_and_says_why(faults: FaultStore) -> None:
    """And the store says since when it is down, until a call is answered; a definite no is an answer."""
    patient = PatientStore(faults, stall_s=0.3)
    assert patient.state.up
    faults.down = True
    with pytest.raises(Unavailable, match=r"for 0 s: .*the fault store refuses"):
        await patient.upload("acme", "session01", b"content")
    since = patient.state.since_s
    with pytest.raises(Unavailable):
        await patient.size("acme/session01/01J8ZQ5XKQJ9V3N7C2B4D6F8G0")
    assert (patient.state.up, patient.state.since_s) == (False, since)
    assert "the fault store refuses call" in patient.state.reason
    assert patient.waits == patient.state.reason

    faults.down = False
    with pytest.raises(NotFound):
        await patient.size("acme/session01/01J8ZQ5XKQJ9V3N7C2B4D6F8G0")
    assert (patient.state.up, patient.state.reason) == (True, "")


async def test_a_read_goes_on_when_the_store_is_back(faults: FaultStore) -> None:
    """It was waiting, and is answered; nothing is lost by the outage."""
    patient = PatientStore(faults)
    key = await patient.upload("acme", "session01", b"content")
    faults.down = True
    reading = asyncio.create_task(patient.get(key, 2, 3))
    await until(lambda: not patient.state.up)
    faults.down = False
    async with asyncio.timeout(WAIT_MAX_S + 1):
        assert await reading == b"nte"
    assert patient.state.up


async def test_a_call_that_takes_long_is_told_while_it_lasts(
    faults: FaultStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that hangs is not known to be down until its call ends: who waits for it learns that at once."""
    monkeypatch.setattr(patient_store, "SLOW_S", 0.05)
    patient = PatientStore(faults)
    faults.plan = at(0, "late")
    uploading = asyncio.create_task(patient.upload("acme", "session01", b"content"))

    await until(lambda: patient.waits != "")
    assert patient.waits == "the store of packs has not answered for 0.05 s"
    assert patient.state.up
    faults.let_go()
    await uploading
    assert patient.waits == ""


async def test_half_a_listing_is_an_error(faults: FaultStore) -> None:
    """Whoever concluded from it that a pack is gone would be wrong."""
    patient = PatientStore(faults)
    keys = [await patient.upload("acme", "session01", b"content") for _ in range(4)]
    faults.plan = at(len(faults.calls), "after")
    listing = patient.list()
    found = [(await anext(listing)).key for _ in range(2)]
    assert set(found) < set(keys)
    with pytest.raises(Unavailable):
        await anext(listing)


def test_waits_grow_and_are_bounded() -> None:
    """Nobody hammers a store that is down, and nobody sleeps long after it is back."""
    waits = [wait_s(tries, 1.0) for tries in range(1, 40)]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (0.1, WAIT_MAX_S)
    assert wait_s(3, 0.0) == wait_s(3, 1.0) / 2


async def test_only_a_pack_that_is_not_there_is_a_missing_pack(faults: FaultStore) -> None:
    """What counts as lost by the store is told apart from all else that is not found."""
    key = faults.new_key("acme", "session01")

    with pytest.raises(PackMissing, match="no such"):
        await PatientStore(faults).get(key)
    with pytest.raises(PackMissing, match="no such"):
        await PatientStore(faults).size(key)
