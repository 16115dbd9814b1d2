"""Each bound of `docs/limits.md` is passed by one somewhere: here, or in the test that is named here."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from shared import ids, limits, subjects
from shared.bus import Bus
from shared.errors import InvalidMessage, LimitExceeded
from shared.messages import decode
from shared.record import Death, Origin
from shared.task import decode_task
from shared.testing.plugin import declared
from shared.transitions import claim, create, revoke
from shared.views import ListAsk

ROOT = Path(__file__).parents[2]


def _file(**fields: Any) -> dict[str, Any]:
    """Return an input by reference."""
    reference = {"id": "object-01", "size_bytes": 1, "sha256": "0" * 64, "chunk_bytes": 1}
    return {"files": [{"path": "f", "object": reference | fields}]}


REFUSED_TASKS: dict[str, tuple[dict[str, Any], str]] = {
    "ARGV_ITEMS_MAX": ({"argv": ["x"] * (limits.ARGV_ITEMS_MAX + 1)}, "$.argv"),
    "ENV_ITEMS_MAX": ({"env": {f"N{n}": "" for n in range(limits.ENV_ITEMS_MAX + 1)}}, "$.env"),
    "ENV_NAME_LENGTH_MAX": ({"env": {"N" * (limits.ENV_NAME_LENGTH_MAX + 1): ""}}, "$.env"),
    "ENV_VALUE_LENGTH_MAX": ({"env": {"N": "v" * (limits.ENV_VALUE_LENGTH_MAX + 1)}}, "$.env"),
    "FILES_MAX": (
        {"files": [{"path": "f", "text": ""}] * (limits.FILES_MAX + 1)},
        "$.files",
    ),
    "PATH_LENGTH_MAX": ({"cwd": "p" * (limits.PATH_LENGTH_MAX + 1)}, "$.cwd"),
    "TIMEOUT_S_MAX": ({"timeout_s": limits.TIMEOUT_S_MAX + 1}, "$.timeout_s"),
    "DEADLINE_S_MAX": ({"deadline_s": limits.DEADLINE_S_MAX + 1}, "$.deadline_s"),
    "OBJECT_BYTES_MAX": (_file(size_bytes=limits.OBJECT_BYTES_MAX + 1), "size_bytes"),
    "OBJECT_CHUNK_BYTES_MAX": (_file(chunk_bytes=limits.OBJECT_CHUNK_BYTES_MAX + 1), "chunk_bytes"),
    "OBJECT_CHUNKS_MAX": (
        _file(size_bytes=limits.OBJECT_CHUNKS_MAX + 1, chunk_bytes=1),
        "files[0].object",
    ),
    "OUTPUTS_MAX": (
        {"outputs": [f"f{n}" for n in range(limits.OUTPUTS_MAX + 1)]},
        "$.outputs",
    ),
    "TERMINAL_SIDE_MAX": ({"tty": {"rows": limits.TERMINAL_SIDE_MAX + 1}}, "$.tty.rows"),
    "TERMINAL_TYPE_LENGTH_MAX": (
        {"tty": {"term": "x" * (limits.TERMINAL_TYPE_LENGTH_MAX + 1)}},
        "$.tty.term",
    ),
    "SNAPSHOT_NAME_LENGTH_MAX": (
        {"kind": "rollback", "snapshot": "n" * (limits.SNAPSHOT_NAME_LENGTH_MAX + 1)},
        "$.snapshot",
    ),
    "TERMINAL_IDLE_S_MAX": ({"tty": {"idle_s": limits.TERMINAL_IDLE_S_MAX + 1}}, "$.tty.idle_s"),
    "READ_BYTES_MAX": (
        {"kind": "read", "path": "f", "limit": limits.READ_BYTES_MAX + 1},
        "$.limit",
    ),
    "FILE_BYTES_MAX": (
        {"kind": "read", "path": "f", "offset": limits.FILE_BYTES_MAX + 1},
        "$.offset",
    ),
}
"""Bound -> what passes it by one, and the field that the refusal names beside the bound."""
STREAM_BOUNDS = {
    "LANE_MESSAGES_MAX": ("Q0", "max_msgs_per_subject"),
    "QUEUE_BYTES_MAX": ("Q0", "max_bytes"),
    "INBOX_MESSAGES_MAX": ("I0", "max_msgs"),
    "INBOX_BYTES_MAX": ("I0", "max_bytes"),
}
"""Bound -> a stream that has it, and which of its settings it is."""
SHOWN_ELSEWHERE = {
    "BODY_BYTES_MAX": "tests/integration/bus/test_bus_streams.py::test_a_body_over_the_limit_is_definitely_refused",
    "RESULT_OUTPUT_BYTES_MAX": "services/worker-agent/tests/test_worker_core.py::test_the_tail_is_the_end_of_all_that_was_written",
    "OUTPUT_BYTES_MAX": "services/worker-agent/tests/test_worker_core.py::test_the_cap_cuts_once_and_is_marked_once",
    "TERMINAL_INPUT_BYTES_MAX": "services/worker-agent/tests/test_runner_terminal.py::test_input_for_a_program_that_does_not_read_is_bounded",
    "TERMINAL_WRITERS_MAX": "services/worker-agent/tests/test_worker_terminal.py::test_of_too_many_writers_the_most_silent_is_forgotten",
    "TERMINAL_OUTPUT_BYTES_PER_S_MAX": "services/worker-agent/tests/test_worker_terminal.py::test_a_flood_is_shown_at_its_pace",
    "TRACESTATE_LENGTH_MAX": "shared/tests/test_traces.py::test_a_tracestate_that_does_not_fit_is_left_out",
    "LIST_ENTRIES_MAX": "services/worker-agent/tests/test_runner_files.py::test_a_listing_is_bounded_and_says_so",
    "ARCHIVE_ENTRIES_MAX": "services/worker-agent/tests/test_runner_trees.py::test_members_are_counted_and_bounded",
    "SNAPSHOTS_NAMED_MAX": "services/checkpointer/tests/test_keeping.py::test_names_and_forks_are_bounded",
    "FORKS_MAX": "services/checkpointer/tests/test_keeping.py::test_names_and_forks_are_bounded",
    "DIFF_CHANGES_MAX": "services/pool-manager/tests/test_snapshots_live.py::test_differences_are_paged_and_end_at_their_bound",
    "INBOX_ENTRIES_MAX": "services/pool-manager/tests/test_quota_live.py::test_the_newest_entries_of_a_long_inbox_are_rejected",
    "TENANT_INBOX_ENTRIES_MAX": "services/pool-manager/tests/test_quota_live.py::test_a_tenant_that_fills_inboxes_of_unknown_sessions_is_bounded",
    "START_AGAIN_S": "services/worker-agent/tests/test_runner_crowded.py::test_where_no_room_comes_the_task_fails_after_its_bound",
    "OBJECT_STORE_BYTES_MAX": "tests/integration/test_objects.py::test_a_full_store_refuses_and_takes_again_when_there_is_room",
    "PACK_STORE_BYTES_MAX": "services/checkpointer/tests/test_nats_store.py::test_a_full_store_refuses_and_takes_again_when_there_is_room",
    "TOKEN_LENGTH_MAX": "services/pool-manager/tests/test_letters_live.py::test_what_no_name_finds_again_has_its_dead_letter_and_touches_nothing_else",
    "TENANT_OBJECT_BYTES_MAX": "services/pool-manager/tests/test_quota_live.py::test_the_oldest_objects_of_a_tenant_go",
    "TENANT_SESSIONS_MAX": "services/worker-agent/tests/test_worker_claim.py::test_a_full_tenant_gets_no_new_session",
    "CHECKPOINT_PAUSE_S_MAX": "services/worker-agent/tests/test_worker_midway.py::test_user_code_stands_still_for_a_bounded_time",
    "EXCLUDES_MAX": "shared/tests/test_pools.py::test_patterns_that_mean_nothing_or_are_too_many_are_refused",
    "EXCLUDE_LENGTH_MAX": "shared/tests/test_pools.py::test_patterns_that_mean_nothing_or_are_too_many_are_refused",
    "TRANSFER_BYTES_MAX": "services/checkpointer/tests/engine/test_transfers.py::test_all_jobs_of_a_node_together_have_so_many_bytes_under_way",
    "CHECKPOINT_JOBS_MAX": "services/checkpointer/tests/test_jobs.py::test_too_many_jobs_are_refused_for_now",
    "TENANT_CONNECTIONS_MAX": "services/client-edge/tests/test_edge_shares.py::test_a_tenant_has_no_more_than_its_connections",
    "TENANT_HALF_SENT_BYTES_MAX": "services/client-edge/tests/test_edge_shares.py::test_a_tenant_holds_no_more_than_its_half_sent_messages",
    "CANCELS_AHEAD_MAX": "services/pool-manager/tests/test_quota_live.py::test_cancels_ahead_of_their_publish_are_bounded",
    "PUBLISHES_MAX": "sdk/tests/test_turns.py::test_a_publish_without_a_turn_was_surely_not_published",
    "DEATHS_MAX": "services/pool-manager/tests/test_recover_live.py::test_three_deaths_in_one_task_are_poison",
    "ENDED_KEPT_S": "services/pool-manager/tests/test_adapters_live.py::test_results_are_removed_after_their_time_and_no_later_ones",
    "WORKSPACE_ENTRIES_MAX": "services/checkpointer/tests/files/test_scan_bounds.py::test_a_tree_above_a_bound_is_refused_with_path_and_bound",
    "WORKSPACE_BYTES_MAX": "services/checkpointer/tests/files/test_scan_bounds.py::test_a_tree_above_a_bound_is_refused_with_path_and_bound",
    "WORKSPACE_FILE_BYTES_MAX": "services/checkpointer/tests/files/test_scan_bounds.py::test_a_tree_above_a_bound_is_refused_with_path_and_bound",
    "WORKSPACE_SPARSE_BYTES_MAX": "services/checkpointer/tests/files/test_scan_bounds.py::test_a_sparse_file_counts_by_its_data_up_to_a_size",
    "WORKSPACE_PATH_BYTES_MAX": "services/checkpointer/tests/files/test_scan_bounds.py::test_a_path_too_long_or_too_deep_is_refused_by_its_name",
    "WORKSPACE_DEPTH_MAX": "services/checkpointer/tests/files/test_scan_bounds.py::test_a_path_too_long_or_too_deep_is_refused_by_its_name",
    "WORKSPACE_FOLDER_ENTRIES_MAX": "services/checkpointer/tests/files/test_scan_bounds.py::test_a_directory_may_hold_half_a_million_entries",
    "WORKSPACE_PATHS_BYTES_MAX": "services/checkpointer/tests/files/test_scan_bounds.py::test_a_tree_above_a_bound_is_refused_with_path_and_bound",
    "WORKSPACE_XATTRS_BYTES_MAX": "services/checkpointer/tests/engine/test_extremes.py::test_attributes_of_many_files_are_bounded",
    "WORKSPACE_XATTR_BYTES_MAX": "services/checkpointer/tests/files/test_read.py::test_too_many_bytes_of_attributes_are_refused_with_the_path",
    "ID_LENGTH_MAX": "shared/tests/test_ids.py::test_what_could_break_a_subject_is_no_id",
    "NAME_LENGTH_MAX": "shared/tests/test_ids.py::test_a_bad_name_is_refused_with_its_field",
}
SHOWN_HERE = {"ASK_ITEMS_MAX", "INTERRUPTIONS_KEPT", "DEAD_LETTERS_MAX"}


def _bounds() -> set[str]:
    """Return the names of all bounds."""
    return {
        name
        for module in (limits, ids)
        for name in vars(module)
        if name.isupper() and name.endswith(("_MAX", "_KEPT", "_S"))
    }


def _tests_of(path: Path) -> set[str]:
    """Return the names of all tests in a file, those in classes too."""
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_no_bound_is_without_a_test() -> None:
    """And the tests that are named exist."""
    assert _bounds() == {*REFUSED_TASKS, *STREAM_BOUNDS, *SHOWN_ELSEWHERE} | SHOWN_HERE
    for named in SHOWN_ELSEWHERE.values():
        path, _, test = named.partition("::")
        assert test in _tests_of(ROOT / path), named


@pytest.mark.parametrize("bound", REFUSED_TASKS)
def test_a_task_above_a_bound_is_refused_by_field_and_bound(bound: str) -> None:
    """Whoever reads it first: our client before the publish, a worker before the run."""
    fields, named = REFUSED_TASKS[bound]
    body = msgspec.json.encode({"kind": "command", "shell": "true"} | fields)
    if "argv" in fields:
        body = msgspec.json.encode({"kind": "command"} | fields)
    with pytest.raises(InvalidMessage) as refused:
        decode_task(body)

    assert named in str(refused.value)
    value = getattr(limits, bound)
    assert str(value) in str(refused.value) or f"{float(value)}" in str(refused.value)


@pytest.mark.parametrize("bound", STREAM_BOUNDS)
async def test_a_stream_refuses_what_is_above_its_bound(admin_bus: Bus, bound: str) -> None:
    """The stream as declared has the bound; one like it with a small bound refuses, and keeps what it has."""
    like, setting = STREAM_BOUNDS[bound]
    config = next(dict(one.config) for one in declared().streams if one.name == like)
    assert config[setting] == getattr(limits, bound)
    name = f"T{uuid4().hex[:8]}"
    subject = f"limit.{name}.a"
    small = {"max_bytes": 2048}.get(setting, 3)
    config |= {"name": name, "subjects": [f"limit.{name}.*"], setting: small, "num_replicas": 1}
    config.pop("republish")
    await admin_bus.js_api(f"STREAM.CREATE.{name}", config)

    async def fill() -> None:
        for number in range(10):
            where = subject if setting == "max_msgs_per_subject" else f"limit.{name}.{number}"
            await admin_bus.publish_acked(where, b"x" * 512, message_id=uuid4().hex)

    with pytest.raises(LimitExceeded, match="maximum"):
        await fill()

    info = await admin_bus.js_api(f"STREAM.INFO.{name}")
    assert info["state"]["messages"] == 3
    await admin_bus.js_api(f"STREAM.DELETE.{name}")


def test_a_question_for_too_many_sessions_is_refused() -> None:
    """By field and bound."""
    body = msgspec.json.encode({"limit": limits.ASK_ITEMS_MAX + 1})
    with pytest.raises(InvalidMessage, match=rf"{limits.ASK_ITEMS_MAX}.*\$\.limit"):
        decode(body, ListAsk)


def test_the_oldest_interruptions_are_forgotten() -> None:
    """A session that is interrupted for ever does not grow for ever."""
    origin = Origin(session="s" * 8, tenant="t", pool="p", lane="batch", accepted_ms=1)
    record = create(origin, owner="w", node="n", now_ms=1)
    for _ in range(limits.INTERRUPTIONS_KEPT + 2):
        death = Death(cause="node", process_died=False)
        record = claim(revoke(record, death=death, now_ms=2), owner="w", node="n", now_ms=3)

    kept = [one.epoch for one in record.interruptions]
    assert len(kept) == limits.INTERRUPTIONS_KEPT
    assert kept[-1] == record.epoch - 2


async def test_the_oldest_dead_letters_go(admin_bus: Bus) -> None:
    """Of that tenant and pool; another's stay."""
    config = next(one.config for one in declared().streams if one.name == "DLQ")
    assert config["max_msgs_per_subject"] == limits.DEAD_LETTERS_MAX
    assert config["discard"] == "old"
    assert subjects.dead_letter("t", "p") == "dlq.t.p"
