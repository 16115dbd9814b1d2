"""Makes `docs/sdk-reference.md` from the docstrings: `python -m agent_sandbox.reference docs`."""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path

import agent_sandbox
from agent_sandbox import ServiceError

FILE = "sdk-reference.md"
ORDER = (
    ("Clients", ("Client", "SyncClient", "ClientOptions")),
    ("Sessions", ("Session", "SyncSession")),
    ("Running tasks", ("RunningTask", "SyncTask")),
    ("Terminals", ("Shell", "SyncShell")),
    ("Results", ("Result", "Tti", "Unpacked")),
    ("Objects and dead letters", ("Objects", "SyncObjects", "DeadLetters", "SyncDeadLetters")),
    ("Events", ("Started", "Output", "Progress", "Recovered", "Missing")),
)
INNER = {
    "Client": {"publish_order", "transport"},
    "RunningTask": {
        "abandon", "hear_start", "ignore_events", "settle", "stored", "tenant",
    },
    "Objects": {"carried", "discard", "given_back"},
}  # fmt: skip
"""What only our own code calls."""
_HEAD = """\
# Reference of the Python client
Made from the docstrings by `python -m agent_sandbox.reference docs`; how to begin stands in [sdk.md](sdk.md).
All names are `agent_sandbox`'s own.
"""
_OPTIONS = """
## Options
What `**options` of the methods above takes, by its name there. A name that is not known is refused.
"""
_ERRORS = """
## Exceptions
All are `ServiceError`s with a stable `code`; `definite` says whether the thing surely did not happen. The same on every way.

| exception | is a | `code` | `definite` | when |
|---|---|---|---|---|
"""


def reference() -> str:
    """Return the page as Markdown."""
    page = _HEAD
    for title, names in ORDER:
        page += f"\n## {title}\n"
        page += "".join(_of_class(name) for name in names)
    page += _OPTIONS + "".join(_of_options(kind) for kind in option_kinds())
    return page + _ERRORS + "".join(_of_error(kind) for kind in errors())


def documented() -> set[str]:
    """Return the names that have a place on the page."""
    return {name for _, names in ORDER for name in names} | {kind.__name__ for kind in errors()}


def errors() -> list[type[ServiceError]]:
    """Return the public exceptions, each behind the one that it is a kind of."""
    public = [getattr(agent_sandbox, name) for name in agent_sandbox.__all__]
    kinds = [kind for kind in public if isinstance(kind, type) and issubclass(kind, ServiceError)]
    return sorted(kinds, key=lambda kind: [one.__name__ for one in reversed(kind.__mro__)])


def option_kinds() -> list[type]:
    """Return the kinds of options that public methods take."""
    from agent_sandbox import attaching, letters, orders  # noqa: PLC0415 - to keep the module's names few

    kinds: list[type] = [
        orders.TaskOptions,
        orders.SessionOptions,
        orders.ProgramOptions,
        orders.RunOptions,
    ]
    kinds += [orders.TerminalOptions, orders.ShellOptions]
    return [*kinds, attaching.AttachOptions, letters.ReplayOptions]


def _of_class(name: str) -> str:
    kind = getattr(agent_sandbox, name)
    page = f"\n### {name}\n{_text(inspect.getdoc(kind))}\n"
    nodes = [_node_of(one) for one in kind.__mro__ if one.__module__.startswith("agent_sandbox")]
    fields = "".join(map(_fields, nodes))
    page += "\n| field | |\n|---|---|\n" + fields if fields else ""
    functions = [
        one
        for node in nodes
        for one in node.body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        and not one.name.startswith("_")
        and one.name not in INNER.get(name, ())
    ]
    return page + "".join(map(_of_method, functions))


def _of_method(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    said = _text(ast.get_docstring(node))
    if any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list):
        return f"\n**`{node.name}`** `{_type(node.returns)}`: {said}\n"
    given = ast.unparse(node.args).removeprefix("self").removeprefix(", ")
    word = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    return f"\n**`{word}{node.name}({given})`** → `{_type(node.returns)}`\n\n{said}\n"


def _fields(node: ast.ClassDef) -> str:
    rows = ""
    for one, behind in zip(node.body, [*node.body[1:], None], strict=True):
        if not isinstance(one, ast.AnnAssign) or not isinstance(one.target, ast.Name):
            continue
        said = ""
        if isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant):
            said = " ".join(inspect.cleandoc(str(behind.value.value)).split())
        default = f" = {ast.unparse(one.value)}" if one.value is not None else ""
        kind = f"{_type(one.annotation)}{default}".replace("|", "\\|")
        rows += f"| `{one.target.id}: {kind}` | {said} |\n"
    return rows


def _of_options(kind: type) -> str:
    node = _node_of(kind)
    base = ", ".join(ast.unparse(one) for one in node.bases if ast.unparse(one) != "TypedDict")
    beside = f" Those of `{base}`, and:" if base else ""
    said = _text(ast.get_docstring(node))
    return f"\n### {kind.__name__}\n{said}{beside}\n\n| option | |\n|---|---|\n{_fields(node)}"


def _of_error(kind: type[ServiceError]) -> str:
    said = " ".join((inspect.getdoc(kind) or "").split())
    above = " and ".join(f"`{base.__name__}`" for base in kind.__bases__)
    return f"| `{kind.__name__}` | {above} | `{kind.code}` | {kind.definite} | {said} |\n"


def _node_of(kind: type) -> ast.ClassDef:
    node = ast.parse(inspect.cleandoc("\n" + inspect.getsource(kind))).body[0]
    assert isinstance(node, ast.ClassDef)
    return node


def _type(node: ast.expr | None) -> str:
    return "None" if node is None else ast.unparse(node)


def _text(docstring: str | None) -> str:
    """Return a docstring as Markdown: its sections as lists."""
    page, section = "", ""
    for line in (docstring or "").splitlines():
        head = line.rstrip(":")
        if line.endswith(":") and head in ("Args", "Returns", "Raises"):
            section = head
            page += f"*{head}*\n\n" if page.endswith("\n\n") else f"\n*{head}*\n\n"
        elif section and line.startswith("    ") and not line.startswith("     "):
            name, colon, said = line.strip().partition(": ")
            page += f"- `{name}`: {said}\n" if colon else f"- {line.strip()}\n"
        elif section and line.strip():
            page = page.rstrip("\n") + f" {line.strip()}\n"
        else:
            page += f"{line}\n"
    return page.strip()


if __name__ == "__main__":
    (Path(sys.argv[1]) / FILE).write_text(reference())
