"""What the documents of the command line, the client and the pools say is what the code does."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import click
import msgspec

from agent_sandbox.cli.root import root
from shared.identity import roles
from shared.pools import PodLimits, PoolSpec, Volume, parse_pools

DOCS = Path(__file__).parents[2] / "docs"
VOLUMES = DOCS / "kubernetes-volumes.md"


def test_every_command_stands_in_the_overview() -> None:
    """A new command comes with its line, those of groups as well."""
    text = (DOCS / "cli.md").read_text()
    groups = {name: one for name, one in root.commands.items() if isinstance(one, click.Group)}
    rows = [line for line in text.splitlines() if line.startswith("| `")]

    assert {"session", "task", "deadletter", "pool", "workspace", "k8s"} == set(groups)
    assert [name for name in root.commands if f"`{name}" not in text] == []
    missing = [
        f"{name} {verb}"
        for name, group in groups.items()
        for verb in group.commands
        if not any(f"`{name} " in row and re.search(rf"[ `|\\]{verb}\b", row) for row in rows)
    ]
    assert missing == []


def test_every_field_of_a_pool_is_documented_with_its_default() -> None:
    """Fields, defaults, and an example that can be read."""
    text = (DOCS / "pools.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| `?([^|`]*?)`? ?\|", text, re.MULTILINE))
    example, *promises = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)

    for field in msgspec.structs.fields(PoolSpec):
        if field.name not in ("name", "limits", "promise", "volume"):
            shown = "" if rows[field.name] == "none" else rows[field.name]
            assert (
                float(shown) == field.default if shown.isdigit() else shown == (field.default or "")
            )
    for name, value in msgspec.to_builtins(PodLimits()).items():
        assert f"`{name}` {value}" in text
    assert [pool.name for pool in parse_pools(example)] == ["default", "small"]
    assert all(f"`{field.encode_name}`" in text for field in msgspec.structs.fields(Volume))
    assert all(parse_pools(promise)[0].promise is not None for promise in promises)
    [on_volume] = parse_pools(re.findall(r"```toml\n(.*?)```", VOLUMES.read_text(), re.DOTALL)[0])
    assert on_volume.on_volume


def test_the_page_on_security_names_all_that_a_client_may() -> None:
    """By the first word of each subject; answers to its own requests left out."""
    text = (DOCS / "security.md").read_text()
    (row,) = (line for line in text.splitlines() if line.startswith("| client (tenant) |"))
    rights = roles.publisher("t")
    words = {
        subject.partition(".")[0] for subject in (*(rights.publish or ()), *(rights.hear or ()))
    }

    assert {word for word in words if not word.startswith("_INBOX")} == set(
        re.findall(r"`(\w+)`", row)
    )


def test_the_client_s_example_is_valid_python() -> None:
    """It is run by tests/e2e as it stands."""
    (example,) = re.findall(r"```python\n(.*?)```", (DOCS / "cli.md").read_text(), re.DOTALL)

    assert ast.parse(example)
