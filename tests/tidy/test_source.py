"""Limits and habits that no linter states for us, checked on the source itself."""

from __future__ import annotations

import ast
import re

MODULE_LINES_MAX = 300
FUNCTION_LINES_MAX = 70

UNNUMBERED_MARK = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b(?!\(#\d+\))")
IGNORE_WITHOUT_REASON = re.compile(
    r"#\s*(?:noqa(?!: [A-Z]+[0-9]+(?:, ?[A-Z]+[0-9]+)*\s+\W*\w)"
    r"|type: ignore(?!\[[a-z-]+(?:, ?[a-z-]+)*\]\s+\W*\w))"
)
MACHINE_PATH = re.compile(
    r"(?<![\w.~*}-])/(?:work|opt/wheels|tmp/plan|Users|home/(?:new|project))/|pyenv"
)
REGISTRY = re.compile(
    r"\b(?:pypi\.org|pythonhosted\.org|npmjs\.org|crates\.io|proxy\.golang\.org|maven\.org)\b"
)
BARE_STRERROR = re.compile(r"(?<!os)\.strerror\b(?! or )(?!\()")
THIS_FILE = "tests/tidy/test_source.py"


def _lines_matching(pattern: re.Pattern[str], texts: dict[str, str]) -> list[str]:
    """Return `path:line: text` of each line in which the pattern occurs, this file's own patterns left out."""
    return [
        f"{path}:{number}: {line.strip()[:120]}"
        for path, text in texts.items()
        if path != THIS_FILE
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def _long_functions(path: str, text: str) -> list[str]:
    """Return a line for each function that is longer than the limit, docstring included."""
    return [
        f"{path}:{node.lineno}: {node.name} has {length} lines"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]


def test_no_module_is_longer_than_300_lines(modules: dict[str, str]) -> None:
    """A module that needs more holds two thoughts."""
    lengths = {path: len(text.splitlines()) for path, text in modules.items()}

    assert {path: n for path, n in lengths.items() if n > MODULE_LINES_MAX} == {}


def test_no_function_is_longer_than_70_lines(modules: dict[str, str]) -> None:
    """A function fits on one screen."""
    assert [line for path, text in modules.items() for line in _long_functions(path, text)] == []


def test_every_open_end_names_its_issue(texts: dict[str, str]) -> None:
    """A mark without an issue number is a debt that nobody will find again: write `TODO(#12)`."""
    assert _lines_matching(UNNUMBERED_MARK, texts) == []


def test_every_lint_ignore_gives_its_reason(modules: dict[str, str]) -> None:
    """`# noqa: S101 - why` and `# type: ignore[code]  # why`; a bare one hides more than it says."""
    assert _lines_matching(IGNORE_WITHOUT_REASON, modules) == []


def test_no_file_names_a_path_of_one_machine(texts: dict[str, str]) -> None:
    """The repository works wherever it is cloned."""
    assert _lines_matching(MACHINE_PATH, texts) == []


def test_no_file_names_a_package_registry(texts: dict[str, str]) -> None:
    """Which registry packages come from is the user's setting, not ours."""
    assert _lines_matching(REGISTRY, texts) == []


def test_no_message_is_left_to_an_error_that_may_have_none(modules: dict[str, str]) -> None:
    """An OSError made without a number has no `strerror`, and tells the user `None`."""
    assert _lines_matching(BARE_STRERROR, modules) == []


def test_the_checks_find_what_they_look_for() -> None:
    """Each pattern meets a planted fault, and lets the right form pass."""
    planted = {  # in two pieces where a whole one would be found here by others' checks
        UNNUMBERED_MARK: ("# TODO: later", "# TODO(#12): later"),
        IGNORE_WITHOUT_REASON: ("x = 1  # noqa", "x = 1  # noqa: E741 - the formula's own name"),
        MACHINE_PATH: ("see /work" + "/shared", "its /workspace/data"),
        BARE_STRERROR: ('f"{exc.strerror}"', 'f"{exc.strerror or exc}"'),
        REGISTRY: ("index = https://pypi.org" + "/simple", "the registry"),
    }
    long = "def f():\n" + "    pass\n" * FUNCTION_LINES_MAX

    for pattern, (fault, right) in planted.items():
        assert pattern.search(fault)
        assert not pattern.search(right)
    assert IGNORE_WITHOUT_REASON.search("x = 1  # noqa: E741")
    assert IGNORE_WITHOUT_REASON.search("x = f()  # type: ignore[no-any-return]")
    assert not IGNORE_WITHOUT_REASON.search(
        "import y  # type: ignore[import-untyped]  # ships no types"
    )
    assert _long_functions("a.py", long) == ["a.py:1: f has 71 lines"]
