"""What makes a task's code behave like a notebook's cell: how it is compiled, and where it writes."""

import _ast
import io
from types import CodeType
from typing import Any, TextIO


def compile_cell(code: str, name: str) -> list[CodeType]:
    """Compiles what comes before the last expression, and that one so that its value is shown (not after a `;`)."""
    tree: Any = compile(code, name, "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)
    if not tree.body or not isinstance(tree.body[-1], _ast.Expr) or code.rstrip().endswith(";"):
        return [compile(tree, name, "exec", dont_inherit=True)]
    last = _ast.Interactive([tree.body.pop()])
    units = [compile(tree, name, "exec", dont_inherit=True)] if tree.body else []
    return [*units, compile(last, name, "single", dont_inherit=True)]


def open_stream(fd: int, mode: str) -> TextIO:
    """Opens a standard stream: UTF-8 whatever the node's locale, each line written at once, the descriptor never closed."""
    raw = io.FileIO(fd, mode, closefd=False)
    buffered: Any = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
    return io.TextIOWrapper(buffered, "utf-8", "backslashreplace", line_buffering=mode == "w")
