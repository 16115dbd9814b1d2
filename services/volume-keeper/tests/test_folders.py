"""Folders on a volume: at one place at any time, whichever keepers move them, however late."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.errors import NotFound, ServiceError, StaleEpoch, Unavailable
from volume_keeper.adapters.folders import SharedFolders
from volume_keeper.core.places import Taking
from volume_keeper.remove import empty

NAME = "acme.session-1"


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """An empty one."""
    SharedFolders(tmp_path).begin()
    return tmp_path


def keeper(volume: Path, *pods: str) -> SharedFolders:
    """Return a keeper of a volume, folders made for pods."""
    made = SharedFolders(volume)
    for pod in pods:
        made.make(pod)
    return made


def names(folder: Path) -> list[str]:
    """Return what lies in a folder."""
    return sorted(one.name for one in folder.iterdir())


def places(volume: Path) -> list[str]:
    """Return the pods that have a session's folder."""
    return sorted(one.parent.name for one in (volume / "pods").glob("*/files"))


def test_a_new_session_gets_an_empty_folder_that_the_sandboxes_group_may_write(
    volume: Path,
) -> None:
    """The pod's own folder it may only enter: what lies in it can not be moved, and nothing laid beside it."""
    assert keeper(volume, "p-1").take(NAME, Taking(1, "p-1")) is True

    pod, files = volume / "pods/p-1", volume / "pods/p-1/files"
    assert stat.S_IMODE(pod.stat().st_mode) == 0o750
    assert stat.S_IMODE(files.stat().st_mode) == 0o2770
    assert names(volume / "sessions" / NAME) == ["000000000001.p-1"]


def test_the_next_pod_has_the_very_same_folder(volume: Path) -> None:
    """It is moved, not copied: once, however often that is asked for."""
    folders = keeper(volume, "p-1", "p-2")
    folders.take(NAME, Taking(1, "p-1"))
    (volume / "pods/p-1/files/f").write_text("x")
    inode = (volume / "pods/p-1/files").stat().st_ino

    for _ in range(2):
        assert folders.take(NAME, Taking(3, "p-2")) is False

    assert (volume / "pods/p-2/files").stat().st_ino == inode
    assert (volume / "pods/p-2/files/f").read_text() == "x"
    assert places(volume) == ["p-2"]
    assert names(volume / "sessions" / NAME) == ["000000000003.p-2"]


def test_who_comes_with_an_older_epoch_gets_nothing(volume: Path) -> None:
    """Also where a keeper believes it, which was cut off from the record's newer state."""
    folders = keeper(volume, "p-1", "p-2")
    folders.take(NAME, Taking(3, "p-2"))

    with pytest.raises(StaleEpoch, match="epoch 3"):
        folders.take(NAME, Taking(1, "p-1"))

    assert places(volume) == ["p-2"]


def test_a_pod_without_a_folder_gets_nothing(volume: Path) -> None:
    """Its folder is made before it is."""
    with pytest.raises(NotFound, match="p-1"):
        keeper(volume).take(NAME, Taking(1, "p-1"))


def test_a_folder_that_is_not_seen_is_never_made_anew(volume: Path) -> None:
    """A session that had files never begins empty: it waits."""
    folders = keeper(volume, "p-1", "p-2")
    folders.take(NAME, Taking(1, "p-1"))
    (volume / "pods/p-1/files").rename(volume / "hidden")

    with pytest.raises(Unavailable, match="does not show"):
        folders.take(NAME, Taking(3, "p-2"))

    (volume / "hidden").rename(volume / "pods/p-1/files")
    assert folders.take(NAME, Taking(3, "p-2")) is False


class Crashed(Exception):
    """The process is gone."""


STEPS = ("rename", "mkdir", "unlink", "touch", "rmdir", "chmod")


@pytest.fixture
def crash(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a function after which the n-th step from then on is the last."""
    left: list[int] = []

    def counted(name: str) -> None:
        real = getattr(Path, name)

        def act(self: Path, *args: Any, **kwargs: Any) -> Any:
            if left:
                if left[0] == 0:
                    raise Crashed
                left[0] -= 1
            return real(self, *args, **kwargs)

        monkeypatch.setattr(Path, name, act)

    for name in STEPS:
        counted(name)

    def after(steps: int | None) -> None:
        left[:] = [] if steps is None else [steps]

    return after


@pytest.mark.parametrize("steps", range(14))
def test_a_keeper_may_die_at_every_step_of_a_taking(volume: Path, crash: Any, steps: int) -> None:
    """Another one does what it did not, for the same asker or for the next; the files are all there."""
    folders = keeper(volume, "p-1", "p-2", "p-3")
    crash(steps)
    try:
        folders.take(NAME, Taking(1, "p-1"))
    except Crashed:
        crash(None)
        folders.take(NAME, Taking(1, "p-1"))
    crash(None)
    (volume / "pods/p-1/files/f").write_text("x")

    crash(steps)
    with contextlib.suppress(Crashed):
        folders.take(NAME, Taking(3, "p-2"))
    crash(None)
    folders.take(NAME, Taking(5, "p-3"))

    assert (volume / "pods/p-3/files/f").read_text() == "x"
    assert places(volume) == ["p-3"]


def test_keepers_at_once_leave_the_folder_with_the_newest_owner(volume: Path) -> None:
    """In any order: each of many threads asks for another epoch; nothing is lost, nothing is doubled."""
    pods = [f"p-{number}" for number in range(8)]
    keeper(volume, *pods).take(NAME, Taking(1, "p-0"))
    (volume / "pods/p-0/files/f").write_text("x")
    refused: list[int] = []

    def take(number: int) -> None:
        try:
            SharedFolders(volume).take(NAME, Taking(number + 2, f"p-{number}"))
        except (StaleEpoch, Unavailable):
            refused.append(number)

    for _ in range(3):
        threads = [threading.Thread(target=take, args=(number,)) for number in range(1, 8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    SharedFolders(volume).take(NAME, Taking(9, "p-7"))
    assert places(volume) == ["p-7"]
    assert (volume / "pods/p-7/files/f").read_text() == "x"
    assert 7 not in refused


def _first(folders: SharedFolders, name: str, taking: Taking, made: list[bool]) -> None:
    try:
        made.append(folders.take(name, taking))
    except ServiceError:
        made.append(False)


def test_two_first_takings_make_one_folder(volume: Path) -> None:
    """Whoever is second finds what the first one made."""
    for number in range(20):
        name, pods = f"acme.s{number}", [f"a{number}", f"b{number}"]
        folders = keeper(volume, *pods)
        made: list[bool] = []

        threads = [
            threading.Thread(target=_first, args=(folders, name, Taking(epoch, pod), made))
            for epoch, pod in zip(itertools.count(1), pods, strict=False)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sum(made) == 1
        folders.take(name, Taking(2, pods[1]))
        assert [pod for pod in pods if (volume / "pods" / pod / "files").exists()] == [pods[1]]


def test_a_first_taking_that_hangs_leaves_the_folder_that_the_same_one_made_meanwhile(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Storage was slow, the worker asked again and got its folder; then the first request goes on, and finds it there."""
    first, second = keeper(volume, "p-1"), keeper(volume)
    sync, made = os.fsync, []

    def hangs(fd: int) -> None:
        monkeypatch.setattr(os, "fsync", sync)
        made.append(second.take(NAME, Taking(1, "p-1")))
        sync(fd)

    monkeypatch.setattr(os, "fsync", hangs)

    assert first.take(NAME, Taking(1, "p-1")) is False
    assert made == [True]
    assert places(volume) == ["p-1"]
    assert names(volume / "sessions") == [NAME]


def test_the_end_of_a_session_leaves_nothing(volume: Path) -> None:
    """Neither its name nor its files, whatever their modes; done twice, it is done."""
    folders = keeper(volume, "p-1")
    folders.take(NAME, Taking(1, "p-1"))
    deep = volume / "pods/p-1/files/shut/deep"
    deep.mkdir(parents=True)
    (deep / "f").write_text("x")
    deep.chmod(0o500)
    deep.parent.chmod(0)

    for _ in range(2):
        folders.discard(NAME)

    assert places(volume) == []
    assert folders.sessions() == []
    for _ in range(4):
        empty(volume / "trash")
        folders.clear_trash()
    assert names(volume / "trash") == []


def test_a_tree_of_any_depth_is_removed(volume: Path) -> None:
    """Deeper than a recursion, a path or the open files of a process may be, and shut; a file beside it goes as well."""
    top = volume / "trash/acme.session-1.1"
    top.mkdir()
    (top / "beside").write_text("x")
    deep = os.open(top, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("deeper" * 4, dir_fd=deep)
        below = os.open("deeper" * 4, os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=deep))
    os.fchmod(deep, 0)
    os.close(deep)

    assert empty(volume / "trash") == 0
    assert names(top) == []


def test_what_a_link_in_the_trash_points_at_stays(volume: Path) -> None:
    """The link goes."""
    top, kept = volume / "trash/acme.session-1.1", volume / "kept"
    (top / "folder").mkdir(parents=True)
    kept.mkdir()
    (kept / "f").write_text("x")
    (top / "link").symlink_to(kept)
    (top / "folder/link").symlink_to(kept)

    assert empty(volume / "trash") == 0
    assert names(top) == []
    assert names(kept) == ["f"]


def test_folders_of_pods_that_nobody_hears_go_and_what_is_a_sessions_stays(volume: Path) -> None:
    """A pod that lives, one that a session's files are in, and one that is too new are left alone."""
    folders = keeper(volume, "gone", "lives", "holds", "new")
    folders.take(NAME, Taking(1, "holds"))
    for pod in ("gone", "lives", "holds"):
        os.utime(volume / "pods" / pod, (1, 1))

    assert folders.clear_pods(frozenset({"lives"}), 60) == 1

    assert names(volume / "pods") == ["holds", "lives", "new"]
