"""Paths that clients and user code write, resolved against whatever lies in the workspace."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sandbox_runner.paths import FileError, Lookup, Workspace

NAMES = st.sampled_from(["a", "b", "c", "d"])
PARTS = st.one_of(NAMES, st.sampled_from(["..", ".", ""]))
PATHS = st.lists(PARTS, min_size=1, max_size=6).map("/".join).filter(bool)
TARGETS = st.one_of(
    PATHS, st.builds("{ROOT}/{0}".format, PATHS, ROOT=st.just("ROOT")), st.just("/etc")
)
NODES = st.lists(
    st.tuples(st.lists(NAMES, min_size=1, max_size=3).map("/".join), st.one_of(st.none(), TARGETS)),
    max_size=8,
)


def plant(root: Path, nodes: list[tuple[str, str | None]]) -> None:
    """Make directories (None) and symbolic links, as far as they don't collide."""
    for path, target in nodes:
        place = root / path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if target is None:
                place.mkdir(exist_ok=True)
            else:
                place.symlink_to(target.replace("ROOT", str(root)))
        except OSError:
            continue


@example(nodes=[("b", "ROOT/c/.."), ("c", "a/a")], path="b")
@given(nodes=NODES, path=PATHS)
def test_a_path_resolves_inside_as_the_kernel_would_or_is_refused(
    nodes: list[tuple[str, str | None]], path: str
) -> None:
    """Never a place outside; never a refusal of a place that exists inside and was reached by staying inside."""
    outer = Path(tempfile.mkdtemp())
    try:
        root = outer / "root"
        root.mkdir()
        plant(root, nodes)
        workspace = Workspace(str(root))
        expected = os.path.realpath(root / path)
        inside = expected == str(root) or expected.startswith(f"{root}/")
        try:
            with workspace.locate(path) as place:
                found = os.path.realpath(f"/proc/self/fd/{place.folder}/{place.name}")
                assert found == expected
                assert inside
        except FileError as error:
            reachable = inside and (root / path).exists()
            went_out = error.code == "outside_workspace"
            assert went_out or not reachable
        finally:
            os.close(workspace.fd)
    finally:
        shutil.rmtree(outer)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A workspace with a neighbour."""
    (tmp_path / "inside").mkdir()
    (tmp_path / "neighbour").mkdir()
    return Workspace(str(tmp_path / "inside"))


@pytest.mark.parametrize(
    "path", ["..", "../neighbour", "a/../../neighbour", "/etc/passwd", "/", "//"]
)
def test_a_path_that_leads_out_is_refused_by_name(workspace: Workspace, path: str) -> None:
    """The refusal names the path as it was given."""
    Path(workspace.path, "a").mkdir()
    with (
        pytest.raises(FileError, match="outside of the workspace") as refusal,
        workspace.locate(path),
    ):
        pass
    assert refusal.value.message.startswith(path)


@pytest.mark.parametrize("target", ["../neighbour", "/etc", "a/../../neighbour"])
def test_a_symbolic_link_that_leads_out_is_refused_by_name(
    workspace: Workspace, target: str
) -> None:
    """The refusal names the link and where it points."""
    Path(workspace.path, "a").mkdir()
    Path(workspace.path, "a", "link").symlink_to(target if target[0] == "/" else f"../{target}")
    for path in ("a/link", "a/link/deeper"):
        with pytest.raises(FileError, match="outside of the workspace"), workspace.locate(path):
            pass


def test_a_neighbour_whose_name_begins_alike_is_outside(workspace: Workspace) -> None:
    """`/x/inside-too` is not below `/x/inside`."""
    with pytest.raises(FileError, match="outside"), workspace.locate(f"{workspace.path}-too/file"):
        pass


def test_the_last_link_is_followed_only_if_asked(workspace: Workspace) -> None:
    """Removing a link must not remove what it points to."""
    Path(workspace.path, "file").touch()
    Path(workspace.path, "link").symlink_to("file")
    with workspace.locate("link") as place:
        assert place.name == "file"
    with workspace.locate("link", Lookup(follow=False)) as place:
        assert place.name == "link"


def test_links_that_go_round_are_refused(workspace: Workspace) -> None:
    """Bounded, like the kernel's own walk."""
    Path(workspace.path, "one").symlink_to("two")
    Path(workspace.path, "two").symlink_to("one")
    with pytest.raises(FileError, match="symbolic links"), workspace.locate("one"):
        pass


def test_a_path_of_many_steps_is_refused(workspace: Workspace) -> None:
    """Climbing restarts the walk: it must not become quadratic without end."""
    Path(workspace.path, "a").mkdir()
    with pytest.raises(FileError, match="steps"), workspace.locate("a/../" * 800):
        pass


@pytest.mark.parametrize("path", ["", "a\0b", "x" * 5000])
def test_what_is_no_path_is_refused(workspace: Workspace, path: str) -> None:
    """No surprise from the system call."""
    with pytest.raises(FileError, match="not a path"), workspace.locate(path):
        pass


def test_missing_directories_are_made_only_if_asked(workspace: Workspace) -> None:
    """A write makes them, a read does not."""
    with pytest.raises(FileError, match="a/b/c") as refusal, workspace.locate("a/b/c"):
        pass
    with workspace.locate("a/b/c", Lookup(create=True)) as place:
        assert place.name == "c"
    assert refusal.value.code == "not_found"
    assert Path(workspace.path, "a", "b").is_dir()
