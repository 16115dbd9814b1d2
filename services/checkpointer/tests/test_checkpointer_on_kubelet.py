"""A checkpointer beside a kubelet, with no more rights than a cluster gives it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from checkpointer.testing.kubelet import GID, UID, KubeletLive
from checkpointer.testing.live import Owned, files, fill, packs_of, saved
from shared.bus import Bus
from shared.cluster import Cluster
from shared.testing.ordinary import as_ordinary_user


@pytest.fixture
async def kubelet(
    admin_bus: Bus, provisioned_cluster: Cluster, tmp_path: Path
) -> AsyncIterator[KubeletLive]:
    """A node's checkpointer that runs."""
    made = KubeletLive(provisioned_cluster, tmp_path, admin_bus)
    try:
        await made.start()
        yield made
    finally:
        made.kill()


@pytest.fixture
async def kept(kubelet: KubeletLive) -> Owned:
    """A session that a pod of the node owns."""
    session = Owned(kubelet)
    await session.write()
    return session


def as_the_sandbox(code: str, folder: Path) -> None:
    """Run a shell's lines in a workspace, as its user."""
    rights = as_ordinary_user() and {"user": UID, "group": GID, "extra_groups": []}
    here = os.open(folder, os.O_RDONLY)
    try:
        subprocess.run(
            ["sh", "-euc", code],
            cwd=f"/proc/self/fd/{here}",
            pass_fds=[here],
            check=True,
            timeout=30,
            **rights,
        )
    finally:
        os.close(here)


def about(folder: Path) -> dict[str, tuple[int, int]]:
    """Return mode and time of what is in a workspace, by path."""
    found = {one: one.lstat() for one in folder.rglob("*")}
    return {
        str(one.relative_to(folder)): (
            stat.S_IFMT(it.st_mode) | it.st_mode & 0o1777,
            it.st_mtime_ns,
        )
        for one, it in found.items()
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
async def test_what_one_pod_saved_another_restores_as_its_sandboxs_own(
    kubelet: KubeletLive, kept: Owned
) -> None:
    """Folders that their user has shut, links out of the workspace: with three capabilities, and root's nothing else.

    What the restore wrote is the sandbox's user's, who goes on with it; and it is not stored again.
    """
    first = kubelet.workspace(kept.pod)
    as_the_sandbox(
        "mkdir -p shut/deep sticky; echo 1 > shut/deep/file; echo 2 > sticky/file; ln -s /etc/passwd users;"
        "ln -s ../../../../../.. up; mkfifo pipe; chmod 1777 sticky; chmod 400 shut/deep/file; chmod 0 shut/deep",
        first,
    )
    fill(first)
    as_it_was = about(first)
    before = await saved(kept)
    stored = await packs_of(kubelet.bus, kept.record.session)

    await kept.write(replace(kept.record, owner="default-1-1", epoch=2))
    second = kubelet.workspace("default-1-1")
    as_the_sandbox("mkdir left; echo left > left/behind; chmod 500 left", second)
    kubelet.workspace("default-2-1")
    answer = await kubelet.ask(kept.asking("restore", before, pod="default-1-1"))

    assert answer.state == "done", answer.error
    assert about(second) == as_it_was
    owners = {(one.lstat().st_uid, one.lstat().st_gid) for one in second.rglob("*")}
    assert owners == {(UID, GID)}
    assert (second.stat().st_uid, second.stat().st_mode & 0o7777) == (0, 0o2777)
    as_the_sandbox("chmod 700 shut/deep; cat shut/deep/file; echo more >> src/main.py", second)
    assert (second / "up").readlink() == Path("../../../../../..")
    assert files(second)["src/main.py"] == b"print('hello')\nmore\n"
    assert files(kubelet.workspace("default-2-1")) == {}

    kept.pod = "default-1-1"
    again = await saved(kept, before)
    added = await packs_of(kubelet.bus, kept.record.session) - stored
    assert again.id != before.id
    assert len(added) < len(stored), "it holds what was changed, not three MiB again"


async def test_a_pod_that_is_gone_is_not_waited_for(kubelet: KubeletLive, kept: Owned) -> None:
    """Kubelet has removed its volumes: its rescue fails at once, and definitely; a restore says that it is not there."""
    fill(kubelet.workspace(kept.pod))
    first = await saved(kept)
    rescuing = replace(kept.record, state="rescuing", owner=f"ckpt-{kubelet.node}", epoch=2)
    await kept.write(replace(rescuing, boundary=first))
    kept.mark()
    shutil.rmtree(kubelet.folders.pods / kubelet.uids[kept.pod] / "volumes")

    rescue = await kubelet.ask(kept.asking("rescue", first), "rescue")
    await kept.write(replace(kept.record, state="running", owner=kept.pod, epoch=3))
    restore = await kubelet.ask(kept.asking("restore", first))

    assert rescue.error is not None
    assert rescue.error.code == "not_found"
    assert restore.error is not None
    assert (restore.error.code, "no workspace on this node" in restore.error.message) == (
        "unavailable",
        True,
    )


async def test_a_pod_whose_sidecar_alone_died_is_rescued(kubelet: KubeletLive, kept: Owned) -> None:
    """Its volumes are there: what its worker marked as whole is saved, as on any node."""
    fill(kubelet.workspace(kept.pod))
    first = await saved(kept)
    as_the_sandbox("echo after the last snapshot > more", kubelet.workspace(kept.pod))
    rescuing = replace(kept.record, state="rescuing", owner=f"ckpt-{kubelet.node}", epoch=2)
    await kept.write(replace(rescuing, boundary=first))
    kept.mark()

    answer = await kubelet.ask(kept.asking("rescue", first), "rescue")

    assert answer.state == "done", answer.error
    assert answer.snapshot is not None
    assert answer.snapshot.entries == first.entries + 1
