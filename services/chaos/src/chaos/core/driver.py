"""How nodes of a cluster are failed from here: by commands, as templates. Pure."""

from __future__ import annotations

import shlex

import msgspec

NODE = "{node}"


class Templates(msgspec.Struct, frozen=True, kw_only=True):
    """Commands that take a node down and bring it back; `{node}` in them is its name."""

    down: str
    """Such as `docker kill {node}`; done when it returns."""
    up: str
    """Such as `docker start {node}`."""

    def problem(self) -> str:
        """Return what is wrong with them; empty: nothing."""
        for name, template in (("down", self.down), ("up", self.up)):
            try:
                words = shlex.split(template)
            except ValueError as exc:
                return f"{name}: {exc}"
            if not any(NODE in word for word in words):
                return f"{name}: {template!r} names no {NODE}"
        return ""


def words_of(template: str, node: str) -> list[str]:
    """Return a command's words for a node: split as a shell does, run without one."""
    return [word.replace(NODE, node) for word in shlex.split(template)]
