"""Pods are found by what kubelet wrote; nothing that a pod can write, or be called, leads anywhere else."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from checkpointer.adapters.pods.kubelet import KubeletPods, NodeLayout
from checkpointer.core.scans import FileOwner
from checkpointer.settings import PREFIX, CheckpointerSettings
from checkpointer.testing.kubelet import GID, NAMESPACE, UID, KubeletFolders
from shared.errors import InvalidMessage, Unavailable
from shared.settings import SettingsError, load
from shared.workspace import MARK

POD = "default-0-1"


@pytest.fixture
def node(tmp_path: Path) -> KubeletFolders:
    """A node's folders."""
    return KubeletFolders(tmp_path)


@pytest.fixture
def pods(node: KubeletFolders, tmp_path: Path) -> KubeletPods:
    """What finds pods there."""
    cache = tmp_path / "cache"
    cache.mkdir()
    layout = NodeLayout(pods=node.pods, pod_logs=node.logs, namespace=NAMESPACE, cache=cache)
    return KubeletPods(layout, FileOwner(UID, GID))


def seen(pods: KubeletPods, pod: str = POD) -> list[str]:
    """Return the names in a pod's workspace."""
    with pods.workspace(pod) as fd:
        return sorted(os.listdir(fd))  # noqa: PTH208 - of a descriptor


def test_a_pods_workspace_is_found_by_its_name(node: KubeletFolders, pods: KubeletPods) -> None:
    """Among others whose names begin or end alike."""
    for name in (POD, "default-0-11", "other-default-0-1"):
        (node.volume(node.start(name), "workspace") / f"of-{name}").touch()

    assert seen(pods) == [f"of-{POD}"]
    assert seen(pods, "default-0-11") == ["of-default-0-11"]


@pytest.mark.parametrize("namespace", ["default", f"x-{NAMESPACE}", f"{NAMESPACE}-x"])
def test_a_pod_of_another_namespace_is_never_taken_for_a_worker(
    node: KubeletFolders, pods: KubeletPods, namespace: str
) -> None:
    """It has the worker's name, volumes called like a worker's, and one that says that it is the worker."""
    forger = node.start(POD, namespace=namespace)
    (node.volume(forger, "workspace") / "forged").touch()
    podinfo = node.pods / forger / "volumes" / "kubernetes.io~downward-api" / "podinfo"
    podinfo.mkdir(parents=True)
    (podinfo / "name").write_text(POD)
    (podinfo / "namespace").write_text(NAMESPACE)

    with pytest.raises(Unavailable, match="has no workspace on this node"):
        seen(pods)
    (node.volume(node.start(POD), "workspace") / "own").touch()
    assert seen(pods) == ["own"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a_b", "A", "-a", "a" * 64, "a\0"])
def test_what_is_no_pods_name_is_refused(
    node: KubeletFolders, pods: KubeletPods, name: str
) -> None:
    """Before it becomes a part of a path."""
    node.start(POD)
    for ask in (seen, lambda found, pod: found.mark(pod), lambda found, pod: found.cache(pod)):
        with pytest.raises(InvalidMessage, match="no such name"):
            ask(pods, name)


@pytest.mark.parametrize("uid", ["..", "../outside", ".", "0", "x" * 36])
def test_what_is_no_uid_is_passed_over(
    node: KubeletFolders, pods: KubeletPods, uid: str, tmp_path: Path
) -> None:
    """Whoever wrote it into kubelet's folder of logs."""
    (tmp_path / "outside" / "volumes" / "kubernetes.io~empty-dir" / "workspace").mkdir(parents=True)
    (node.logs / f"{NAMESPACE}_{POD}_{uid.replace('/', '_')}").mkdir()

    with pytest.raises(Unavailable, match="has no workspace"):
        seen(pods)


def test_a_pod_whose_volumes_are_gone_has_no_workspace(
    node: KubeletFolders, pods: KubeletPods
) -> None:
    """Kubelet keeps its logs for a while; the pod that has its name now is another one."""
    node.start(POD, volumes=False)
    assert pods.mark(POD) is None
    with pytest.raises(Unavailable, match="has no workspace"):
        pods.cache(POD)

    (node.volume(node.start(POD), "workspace") / "new").touch()
    assert seen(pods) == ["new"]


def test_two_pods_of_one_name_are_not_told_apart_by_chance(
    node: KubeletFolders, pods: KubeletPods
) -> None:
    """Until kubelet has removed the former one's volumes, nobody knows whose files the session's are."""
    node.start(POD)
    node.start(POD)

    with pytest.raises(Unavailable, match="2 times"):
        seen(pods)
    assert pods.mark(POD) is None


@pytest.mark.parametrize("part", ["volumes", "kubernetes.io~empty-dir", "workspace"])
def test_a_link_on_the_way_is_not_followed(
    node: KubeletFolders, pods: KubeletPods, part: str, tmp_path: Path
) -> None:
    """None of kubelet's folders is one: whoever made it wants us elsewhere."""
    uid = node.start(POD)
    workspace = node.volume(uid, "workspace")
    at = next(one for one in (workspace, *workspace.parents) if one.name == part)
    elsewhere = tmp_path / "elsewhere"
    at.rename(elsewhere)
    at.symlink_to(elsewhere)

    with pytest.raises(Unavailable, match="no plain folder of kubelet's"):
        seen(pods)


def test_a_mark_is_a_file_and_nothing_else(
    node: KubeletFolders, pods: KubeletPods, tmp_path: Path
) -> None:
    """A link, a pipe that nobody writes, a socket, a folder: there is no mark then, at once."""
    mark = node.volume(node.start(POD), "sidecar") / MARK
    mark.write_bytes(b"said")
    assert pods.mark(POD) == b"said"
    mark.unlink()

    (tmp_path / "secret").write_text("secret")
    mark.symlink_to(tmp_path / "secret")
    assert pods.mark(POD) is None
    mark.unlink()
    os.mkfifo(mark)
    assert pods.mark(POD) is None
    mark.unlink()
    mark.mkdir()
    assert pods.mark(POD) is None
    mark.rmdir()
    with socket.socket(socket.AF_UNIX) as made:
        here = os.open(mark.parent, os.O_RDONLY)
        made.bind(f"/proc/self/fd/{here}/{MARK}")
        os.close(here)
    assert pods.mark(POD) is None


def test_a_workspace_that_kubelet_removes_has_no_mark(
    node: KubeletFolders, pods: KubeletPods
) -> None:
    """It empties it file by file, in its place, and before the first of them takes away what says that it is there."""
    uid = node.start(POD)
    (node.volume(uid, "sidecar") / MARK).write_bytes(b"said")
    (node.volume(uid, "workspace") / "left").touch()
    assert pods.mark(POD) == b"said"

    shutil.rmtree(node.ready(uid, "workspace"))

    assert pods.mark(POD) is None
    assert seen(pods) == ["left"]


def test_what_is_remembered_of_a_pod_goes_with_it(
    node: KubeletFolders, pods: KubeletPods, tmp_path: Path
) -> None:
    """It lies in a folder of the checkpointer's own, since kubelet could not remove a pod's that holds strange files."""
    first = pods.cache(POD) if node.start(POD) else None
    assert first is not None
    assert first.parent == tmp_path / "cache"
    uid = first.stem
    for suffix in (".cache", ".packs"):
        first.with_suffix(suffix).touch()
    second = pods.cache("default-0-2") if node.start("default-0-2") else None
    assert first.exists(), "its pod is there yet"

    for one in (node.pods / uid, *sorted((node.pods / uid).rglob("*"))):
        one.chmod(0o700)
    (node.pods / uid).rename(tmp_path / "removed")

    assert pods.cache("default-0-2") == second
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_checkpointer_on_kubernetes_is_told_where_all_is() -> None:
    """Its node may have dots; what is missing stops it before it answers for the node."""
    given = {
        "CHECKPOINTER_NODE": "ip-10-0-1-23.eu-west-1.compute.internal",
        "CHECKPOINTER_SERVERS": "nats://127.0.0.1:1",
        "CHECKPOINTER_PODS": "kubelet",
        "CHECKPOINTER_PODS_DIR": "/host/pods",
        "CHECKPOINTER_POD_LOGS_DIR": "/host/pod-logs",
        "CHECKPOINTER_PODS_NAMESPACE": "workers",
    }
    settings = load(CheckpointerSettings, PREFIX, given)
    assert settings.subject_name == "ip-10-0-1-23_eu-west-1_compute_internal"
    for wrong in (
        {"CHECKPOINTER_PODS_NAMESPACE": None},
        {"CHECKPOINTER_POD_LOGS_DIR": None},
        {"CHECKPOINTER_NODE": "a_b"},
        {"CHECKPOINTER_NODE": "any"},
        {"CHECKPOINTER_PODS": "local"},
        {"CHECKPOINTER_PODS": "other"},
    ):
        kept = {name: text for name, text in (given | wrong).items() if text is not None}
        with pytest.raises(SettingsError, match="CHECKPOINTER_"):
            load(CheckpointerSettings, PREFIX, kept)
