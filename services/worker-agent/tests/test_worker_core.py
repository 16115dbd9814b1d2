"""Decisions of the worker."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared import transitions
from shared.errors import ErrorInfo
from shared.files import FileEntry, Stream
from shared.heads import OUT_OF_MEMORY
from shared.ids import home
from shared.messages import TaskResult
from shared.pools import OnInterrupt
from shared.record import Death, Hold, Origin, Record
from worker_agent.core import claims, lanes, listing
from worker_agent.core.claims import Headers
from worker_agent.core.interrupt import after_interruption, server_ahead_ms, time_left_s
from worker_agent.core.output import OutputBook, Piece
from worker_agent.core.results import RunEnd, Verdict, judge, without_content
from worker_agent.core.work import path_of

ORIGIN = Origin(
    session="session-1", tenant="acme", pool="default", lane="interactive", accepted_ms=1_000
)
CREATED = transitions.create(ORIGIN, owner="w1", node="n1", now_ms=2_000)
REVOKED = transitions.revoke(
    CREATED, death=Death(cause="process_exit", process_died=True), now_ms=3_000
)


@pytest.mark.parametrize(
    ("waiting_since_ms", "path"),
    [
        (None, "on-demand"),
        (999.0, "warm"),
        (1000.9, "warm"),
        (1001.0, "on-demand"),
        (5e3, "on-demand"),
    ],
)
def test_warm_is_who_waited_before_the_work_was_sent(
    waiting_since_ms: float | None, path: str
) -> None:
    """A bell also rings for what waited already, and the oldest message is taken."""
    assert path_of(1000, waiting_since_ms) == path


class TestJudge:
    """How a run ended, told apart."""

    @pytest.mark.parametrize(
        ("end", "status", "reason"),
        [
            (RunEnd(exit_code=0), "ok", None),
            (RunEnd(exit_code=3), "failed", "exit_code"),
            (RunEnd(signal=11), "failed", "signal"),
            (RunEnd(signal=9, oom=True), "failed", "oom"),
            (RunEnd(exit_code=137, oom=True), "failed", "oom"),
            (RunEnd(exit_code=0, oom=True), "ok", None),
            (RunEnd(lost=True), "failed", "sandbox_lost"),
            (RunEnd(lost=True, oom=True), "failed", "oom"),
            (RunEnd(signal=9, stopped="timeout"), "failed", "timeout"),
            (RunEnd(exit_code=0, stopped="deadline"), "expired", "deadline"),
            (RunEnd(signal=9, stopped="cancel"), "cancelled", "requested"),
            (RunEnd(signal=9, stopped="limit", limit="disk_mib: more than 5"), "failed", "limit"),
            (RunEnd(failure=ErrorInfo(code="exec_not_found", message="x")), "failed", "exec"),
            (RunEnd(failure=ErrorInfo(code="disk_full", message="x")), "failed", "file"),
        ],
    )
    def test_the_cause_comes_before_its_symptom(
        self, end: RunEnd, status: str, reason: str | None
    ) -> None:
        """A timeout that kills is a timeout, not a signal."""
        verdict = judge(end)

        assert (verdict.status, verdict.reason) == (status, reason)

    def test_a_limit_is_named(self) -> None:
        """The message says which limit was passed."""
        verdict = judge(RunEnd(stopped="limit", limit="pids: 80 processes, at most 64"))

        assert verdict.error is not None
        assert (
            verdict.error.message == "the sandbox passed its limit: pids: 80 processes, at most 64"
        )


class TestOutputBook:
    """Offsets, caps and tails."""

    def test_offsets_count_both_streams_together(self) -> None:
        """A client can tell a gap, whichever stream wrote."""
        book = OutputBook()

        assert book.add("stdout", b"abc") == (Piece(0, "stdout", b"abc"), False)
        assert book.add("stderr", b"de") == (Piece(3, "stderr", b"de"), False)
        assert book.add("stdout", b"f") == (Piece(5, "stdout", b"f", stream_offset=3), False)
        assert book.offset == 6

    def test_the_cap_cuts_once_and_is_marked_once(self) -> None:
        """What is over the cap is dropped from the stream, not from the count or the tail."""
        book = OutputBook(publish_bytes_max=4, keep_bytes=3)

        assert book.add("stdout", b"abcdef") == (Piece(0, "stdout", b"abcd"), True)
        assert book.add("stdout", b"gh") == (None, False)
        assert book.stdout().text == "fgh"
        assert (book.stdout().size, book.stdout().truncated) == (8, True)

    @given(st.lists(st.binary(max_size=40), max_size=40), st.integers(1, 50))
    def test_the_tail_is_the_end_of_all_that_was_written(
        self, pieces: list[bytes], keep: int
    ) -> None:
        """However it was cut into pieces."""
        book = OutputBook(keep_bytes=keep)
        for piece in pieces:
            book.add("stdout", piece)
        whole = b"".join(pieces)

        kept = book.stdout()
        assert kept.size == len(whole)
        assert kept.truncated == (len(whole) > keep)
        assert kept.text == whole[-keep:].decode("utf-8", "replace")


class TestLanes:
    """Order of lanes."""

    def test_recovery_comes_first_batch_last(self) -> None:
        """Of bells that rang together the most urgent is answered, of the same class the first."""
        rung = [("batch", 0), ("interactive", 2), ("interactive", 1)]

        assert lanes.most_urgent_lane(rung) == ("interactive", 2)
        assert lanes.most_urgent_lane([*rung, ("recovery", 1)]) == ("recovery", 1)

    def test_a_session_waits_in_the_most_urgent_class_that_is_asked_for(self) -> None:
        """Its own where nothing (or nonsense) is said; never in `recovery`, which is ours."""
        assert lanes.lane_for(["batch"], "interactive") == "batch"
        assert lanes.lane_for(["batch", None], "interactive") == "interactive"
        assert lanes.lane_for(["recovery", "x"], "batch") == "batch"
        assert lanes.lane_for([None, "interactive"], "batch") == "interactive"

    def test_unknown_lanes_are_ignored(self) -> None:
        """Hints are hints."""
        hints = [("batch", 1), ("x", 0), ("batch", 9), ("recovery", 0)]

        assert lanes.known_lanes(hints) == (("batch", 1), ("recovery", 0))


class TestClaims:
    """What the answer to a claim means."""

    def record(self, **changes: object) -> Record:
        """A created record with changes."""
        return msgspec.structs.replace(CREATED, **changes)

    def test_an_unanswered_create_that_landed_is_won(self) -> None:
        """Owner and epoch decide."""
        assert claims.after_read(CREATED, Hold("w1", 1), creating=True) == "won"

    def test_an_unanswered_create_that_did_not_land_is_given_back(self) -> None:
        """Never waited for."""
        assert claims.after_read(None, Hold("w1", 1), creating=True) == "give_back"

    def test_a_token_without_a_record_is_dropped(self) -> None:
        """A client's invention."""
        assert claims.after_read(None, Hold("w1", 1), creating=False) == "drop"

    def test_a_queued_record_is_claimed_and_any_other_dropped(self) -> None:
        """The record is the truth, the message a hint."""
        assert claims.after_read(REVOKED, Hold("w2", 1), creating=False) == "claim"
        assert claims.after_read(CREATED, Hold("w2", 1), creating=False) == "drop"
        assert (
            claims.after_read(self.record(state="closed"), Hold("w2", 1), creating=False) == "drop"
        )

    def test_tenant_pool_and_class_come_from_the_subject(self) -> None:
        """Never from the body."""
        request = claims.read_request(
            "q.1.acme.default.batch", Headers(message_id="task-0001"), stream_seq=7, time_ms=5
        )

        assert request.origin == Origin(
            session="task-0001", tenant="acme", pool="default", lane="batch", accepted_ms=5
        )

    @pytest.mark.parametrize("bad", [None, "a b", "x", "a.b.c.d.e.f", "*" * 10])
    def test_without_a_usable_id_every_redelivery_yields_the_same(self, bad: str | None) -> None:
        """And its home is the queue's own shard."""
        lane, headers = "q.2.acme.default.batch", Headers(message_id=bad)
        first = claims.read_request(lane, headers, stream_seq=1_700_000, time_ms=5)
        again = claims.read_request(lane, headers, stream_seq=1_700_000, time_ms=5)

        assert first == again
        assert home(first.task) == 2


@pytest.mark.parametrize("off_ms", [0, 1500, 120_000, -120_000])
def test_a_deadline_holds_by_the_servers_clock(off_ms: int) -> None:
    """However wrong this machine's is: what its own write shows is set off against it."""
    own_ms = 50_000_000
    record = msgspec.structs.replace(CREATED, claimed_ms=own_ms)
    ahead_ms = server_ahead_ms(record, own_ms + off_ms, owner="w1")

    left_s = time_left_s(own_ms + off_ms, 60.0, own_ms + 10_000 + ahead_ms)

    assert left_s == pytest.approx(50.0, abs=2.0)
    assert server_ahead_ms(record, own_ms + off_ms, owner="another") == 0


class TestInterruption:
    """on_interrupt."""

    def test_a_task_is_run_again_by_default(self) -> None:
        """From the last committed workspace."""
        assert after_interruption(REVOKED, "session-1", "rerun") == "run"

    def test_a_task_that_must_not_run_twice_ends_as_interrupted(self) -> None:
        """It may have happened in part, and says so."""
        verdict = after_interruption(REVOKED, "session-1", "fail")

        assert isinstance(verdict, Verdict)
        assert (verdict.status, verdict.reason) == ("interrupted", "worker_lost")
        assert verdict.error is not None
        assert not verdict.error.definite

    @pytest.mark.parametrize("rule", ["rerun", "resume", "fail"])
    def test_a_task_that_took_its_pod_s_memory_is_not_run_again(self, rule: OnInterrupt) -> None:
        """It would take as much again, and be poison in the end; the next task of the session is run."""
        last = msgspec.structs.replace(REVOKED.interruptions[-1], cause=OUT_OF_MEMORY)
        record = msgspec.structs.replace(REVOKED, interruptions=(last,), death_task="session-1")

        verdict = after_interruption(record, "session-1", rule)

        assert isinstance(verdict, Verdict)
        assert (verdict.status, verdict.reason) == ("failed", "oom")
        assert after_interruption(record, "another-1", rule) == "run"

    def test_the_first_attempt_runs_whatever_is_wanted(self) -> None:
        """Nothing was interrupted."""
        assert after_interruption(CREATED, "session-1", "fail") == "run"

    def test_a_task_that_never_began_was_not_interrupted(self) -> None:
        """The worker died in another one."""
        record = msgspec.structs.replace(REVOKED, death_task="another-1")

        assert after_interruption(record, "session-1", "fail") == "run"

    def test_deadlines_count_from_acceptance(self) -> None:
        """By the servers' clock."""
        assert time_left_s(10_000, 5.0, 12_000) == 3.0


class TestFit:
    """Results that are larger than a stream takes."""

    def test_a_listing_is_cut_where_it_would_not_fit(self) -> None:
        """A sandbox chooses its names: control characters take six bytes each in JSON."""
        entries = [FileEntry(name="\x01" * 255, type="file") for _ in range(1000)]

        kept, cut = listing.fit(entries)

        assert cut
        assert 0 < len(kept) < 1000
        assert len(msgspec.json.encode(kept)) <= listing.LISTING_BYTES_MAX

    def test_a_result_without_its_content_still_says_how_it_ended(self) -> None:
        """Exit code and sizes stay."""
        result = TaskResult(
            task="task-0001",
            session="task-0001",
            tenant="acme",
            status="ok",
            exit_code=0,
            stdout=Stream(text="x", size=1),
        )

        cut = without_content(result, ErrorInfo(code="limit_exceeded", message="too large"))

        assert (cut.status, cut.reason, cut.exit_code) == ("failed", "limit", 0)
        assert cut.stdout == Stream(text="", size=1, truncated=True)
