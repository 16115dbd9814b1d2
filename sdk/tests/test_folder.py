"""The state folder: made, found again, locked, and left alone where it is not ours."""

from __future__ import annotations

import collections
import shutil
from pathlib import Path

import msgspec
import pytest

from agent_sandbox.embedded.folder import Folder
from agent_sandbox.embedded.wishes import Wishes, digest, keep, store_address
from shared.errors import Forbidden, InvalidMessage, LimitExceeded, Rejected, Unavailable


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A state folder that does not exist yet."""
    return Folder(tmp_path / "state")


def test_a_folder_is_made_once_and_found_again(folder: Folder) -> None:
    """The second time everything is as it was; what is secret is not for others."""
    made = folder.create()

    assert folder.create() == made
    assert made.nodes == 2
    assert folder.credentials.stat().st_mode & 0o077 == 0
    assert folder.cluster_file.stat().st_mode & 0o077 == 0


def test_wishes_are_kept_until_others_are_made(folder: Folder) -> None:
    """Nodes, isolation and port stay as last wished; each change has another digest."""
    first = keep(folder, folder.create(), Wishes(nodes=3, isolation="process", base_port=7000))
    before = digest(folder)
    same = keep(folder, folder.create(), Wishes())
    unchanged = digest(folder)
    last = keep(folder, folder.create(), Wishes(isolation="auto", base_port=0))

    assert (first.nodes, first.isolation, first.base_port) == (3, "process", 7000)
    assert same == first
    assert unchanged == before
    assert (last.nodes, last.isolation, last.base_port) == (3, None, None)
    assert digest(folder) != before


def test_variables_of_an_experiment_outlive_other_wishes(folder: Folder) -> None:
    """And are a change of their own: services that get others are started anew."""
    cluster = folder.create()
    before = digest(folder)
    folder.write(msgspec.structs.replace(cluster, environ={"node-1": {"LOCAL_NODE_BEAT_S": "1"}}))

    assert digest(folder) != before
    assert keep(folder, folder.read(), Wishes(nodes=3)).environ == {
        "node-1": {"LOCAL_NODE_BEAT_S": "1"}
    }


def test_a_folder_is_a_store_by_its_name_alone() -> None:
    """To whichever command: `up` and `verify` take the same words."""
    assert store_address("/srv/packs") == store_address("local:/srv/packs") == "local:/srv/packs"
    assert store_address("packs") == f"local:{Path.cwd()}/packs"
    assert store_address("nats") == "nats"
    assert store_address("s3://bucket/prefix") == "s3://bucket/prefix"


def test_where_files_are_saved_is_chosen_once(folder: Folder) -> None:
    """Before the first start; afterwards another choice would leave them all behind."""
    first = keep(folder, folder.create(), Wishes(store="/srv/packs"))
    assert first.store == "local:/srv/packs"
    started = msgspec.structs.replace(first, servers=("nats://127.0.0.1:1",))
    folder.write(started)
    assert keep(folder, started, Wishes(store="local:/srv/packs")).store == "local:/srv/packs"

    with pytest.raises(InvalidMessage, match="can't be changed any more"):
        keep(folder, started, Wishes(store="nats"))
    with pytest.raises(InvalidMessage, match="absolute path"):
        keep(folder, folder.create(), Wishes(store="local:packs"))


@pytest.mark.parametrize("wishes", [Wishes(nodes=0), Wishes(nodes=65), Wishes(isolation="iron")])
def test_a_wish_out_of_bounds_changes_nothing(folder: Folder, wishes: Wishes) -> None:
    """Refused before anything is written."""
    made = folder.create()

    with pytest.raises(InvalidMessage):
        keep(folder, made, wishes)

    assert folder.read() == made


def test_one_supervisor_holds_a_folder(folder: Folder) -> None:
    """The lock is exclusive, and free again when its holder is done."""
    folder.create()
    with folder.lock():
        assert folder.is_locked()
        with pytest.raises(Unavailable, match="in use by a running supervisor"), folder.lock():
            pass

    assert not folder.is_locked()


def test_a_full_disk_is_said_before_anything_is_started(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streams that cannot be written would fail later and worse."""
    usage = collections.namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(100 << 20, 99 << 20, 1 << 20))

    with pytest.raises(LimitExceeded, match="disk almost full: 1 MiB free"):
        folder.create()


def test_a_folder_that_cannot_be_made_is_said() -> None:
    """Not even root can make one in the kernel's own file system."""
    with pytest.raises(Forbidden, match="no permission"):
        Folder(Path("/sys/agent-sandbox-test")).create()


def test_a_file_in_the_folder_s_place_is_said(folder: Folder) -> None:
    """The state folder's name is taken by a file."""
    folder.path.write_text("")

    with pytest.raises(InvalidMessage, match="is not a folder"):
        folder.create()


def test_no_cluster_is_no_traceback(folder: Folder) -> None:
    """Nothing there, or a folder without a cluster."""
    with pytest.raises(Rejected, match="start one with `agent-sandbox up`"):
        folder.read()


def test_a_newer_format_is_refused(folder: Folder) -> None:
    """A downgrade must not touch what it cannot read."""
    made = folder.create()
    newer = msgspec.structs.replace(made, format=2)
    folder.cluster_file.write_bytes(msgspec.json.encode(newer))

    with pytest.raises(InvalidMessage, match="has format 2, this version reads 1"):
        folder.create()
