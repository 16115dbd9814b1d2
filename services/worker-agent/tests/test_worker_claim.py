"""Rule 1, carried out where answers are lost: a claim is decided by reading, however late it landed."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from shared import transitions
from shared.errors import Conflict, LimitExceeded, OutcomeUnknown, ServiceError
from shared.messages import TaskResult
from shared.quota import FULL_LASTS_S, FullTenants, TenantFull
from shared.record import Origin, Record
from worker_agent.core.claims import Full, Headers
from worker_agent.core.results import Place
from worker_agent.loops.claim import Claimer

SESSION = "0192f0c4-0000-7000-8000-000000000001"
PLACE = Place(worker="w", node="n", isolation="process")
ORIGIN = Origin(session=SESSION, tenant="t", pool="p", lane="interactive", accepted_ms=0)
QUEUED = msgspec.structs.replace(
    transitions.create(ORIGIN, owner="old", node="n", now_ms=1), state="queued", owner=None
)


class FakeTruth:
    """One session's record in memory; `faults` are raised by the next writes, one each."""

    def __init__(self, record: Record | None, *faults: ServiceError) -> None:
        """Hold `record`."""
        self.record, self.seq = record, 1
        self._faults = list(faults)
        self._late: list[Record] = []
        """Lands just before the next write, having been unanswered before."""

    async def write(self, record: Record, expected_seq: int) -> int:
        """Compare and set."""
        while self._late:
            self._put(self._late.pop())
        if self._faults:
            fault = self._faults.pop(0)
            if isinstance(fault, OutcomeUnknown):
                self._late.append(record)
            raise fault
        if expected_seq != self.seq:
            raise Conflict("another sequence")
        return self._put(record)

    async def create(self, record: Record, _payload: bytes) -> int:
        """Create the record."""
        return await self.write(record, self.seq)

    async def read(self, _tenant: str, _session: str, _pool: str) -> tuple[Record, int] | None:
        """Return the record."""
        return None if self.record is None else (self.record, self.seq)

    def _put(self, record: Record) -> int:
        self.record, self.seq = record, self.seq + 1
        return self.seq


class FakeDelivery:
    """A token for the session, or its first task."""

    def __init__(self, token: str | None) -> None:
        """Make one."""
        self.headers = Headers(message_id=SESSION, token=token)
        self.subject, self.data, self.stream_seq, self.time_ms = (
            "q.0.t.p.interactive",
            b"",
            1,
            10**14,
        )
        self.asked_ms = self.delivered_ms = 1.0
        self.settled = ""

    async def ack(self) -> None:
        """Note it."""
        self.settled = "ack"

    async def give_back(self, _delay_s: float) -> None:
        """Note it."""
        self.settled = "give_back"


async def claim(truth: Any, delivery: Any) -> Any:
    """Claim what the delivery offers."""
    return await Claimer(truth, PLACE).claim(delivery, None)


async def test_a_claim_that_lands_after_it_was_read_is_still_won() -> None:
    """Its answer was lost, the reading came too soon, the next try lost against the first."""
    truth = FakeTruth(QUEUED, OutcomeUnknown("no answer"))
    held = await claim(truth, FakeDelivery(SESSION))

    assert held is not None
    assert (held.record, held.seq) == (truth.record, truth.seq)
    assert held.record.owner == "w"


@pytest.mark.parametrize(("since_ms", "path"), [(None, "on-demand"), (10**14, "warm")])
async def test_what_was_won_says_how_and_when_it_came(since_ms: float | None, path: str) -> None:
    """Claimed is when the record was written, not when that was tried."""
    truth: Any = FakeTruth(QUEUED)
    before_ms = time.time() * 1000
    delivery: Any = FakeDelivery(SESSION)
    held = await Claimer(truth, PLACE).claim(delivery, since_ms)

    assert held is not None
    assert held.taken is not None
    assert (held.taken.path, held.taken.delivered_ms) == (path, 1.0)
    assert before_ms <= held.taken.claimed_ms <= time.time() * 1000


async def test_somebody_elses_session_is_not_won() -> None:
    """The token is dropped."""
    truth = FakeTruth(transitions.claim(QUEUED, owner="other", node="n", now_ms=1))
    delivery = FakeDelivery(SESSION)

    assert await claim(truth, delivery) is None
    assert delivery.settled == "ack"


async def test_a_full_store_is_a_shard_that_is_down() -> None:
    """The message goes back to the lane, the worker lives on."""
    truth = FakeTruth(None, LimitExceeded("insufficient storage"))
    delivery = FakeDelivery(None)

    assert await claim(truth, delivery) is None
    assert delivery.settled == "give_back"


class EndingTruth(FakeTruth):
    """Keeps the end of a session that was never born."""

    def __init__(self) -> None:
        """Hold nothing."""
        super().__init__(None)
        self.ended: list[tuple[Record, TaskResult]] = []

    async def commit(self, record: Record, expected_seq: int, result: TaskResult) -> int:
        """Keep both."""
        assert expected_seq == 0
        self.ended.append((record, result))
        return 2


async def test_a_full_tenant_gets_no_new_session() -> None:
    """Its task is rejected, and told which bound it met."""
    truth: Any = EndingTruth()
    delivery: Any = FakeDelivery(None)

    assert await Claimer(truth, PLACE, full=("t",)).claim(delivery, None) is None
    assert delivery.settled == "ack"
    ((record, result),) = truth.ended
    assert record.state == "rejected"
    assert (result.status, result.reason) == ("rejected", "limit")
    assert result.error is not None
    assert "TENANT_SESSIONS_MAX" in result.error.message


class RefusingTruth(EndingTruth):
    """Refuses the end for another write that is under way."""

    def __init__(self, *, has_result: bool) -> None:
        """Hold no record."""
        super().__init__()
        self._has_result = has_result

    async def commit(self, record: Record, expected_seq: int, result: TaskResult) -> int:
        """Refuse."""
        raise Conflict("another write is under way")

    async def result_exists(self, _record: Record, _task: str) -> bool:
        """Whether the task was ended elsewhere."""
        return self._has_result


@pytest.mark.parametrize(("has_result", "settled"), [(False, "give_back"), (True, "ack")])
async def test_a_refused_end_drops_the_message_only_where_something_holds_it(
    has_result: bool, settled: str
) -> None:
    """The write that it lost against may be lost itself."""
    truth: Any = RefusingTruth(has_result=has_result)
    delivery: Any = FakeDelivery(None)

    assert await Claimer(truth, PLACE, full=("t",)).claim(delivery, None) is None
    assert delivery.settled == settled


def test_what_was_said_of_full_tenants_ends_by_itself() -> None:
    """A worker that misses the all-clear refuses nobody for long."""
    full = Full((), now=0.0)
    assert full.why("t", 1.0) is None
    full.heard(FullTenants(full=(TenantFull("t", 12, 10),)), now=1.0)
    why = full.why("t", 2.0)
    assert why is not None
    assert "at most 10" in why.message
    assert full.why("other", 2.0) is None
    assert full.why("t", 1.0 + FULL_LASTS_S) is None
    full.heard(FullTenants(full=(TenantFull("t", 12, 10),)), now=10.0)
    full.heard(FullTenants(), now=11.0)
    assert full.why("t", 11.0) is None
