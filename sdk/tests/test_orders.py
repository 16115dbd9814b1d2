"""From what a caller says to the task that is published, and where a client connects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_sandbox.access import ClientOptions, bus_options, find_access
from agent_sandbox.cli.options import split_env, split_file
from agent_sandbox.orders import check_class, common_fields, input_file, program_task
from agent_sandbox.places import default_state
from shared.errors import InvalidMessage, NotFound, Unavailable
from shared.identity import write_credential
from shared.messages import Credential
from shared.task import Command, InputFile, Python, decode_task, encode_task


def test_a_program_a_line_and_code_become_their_tasks() -> None:
    """Each of the three ways to run something."""
    assert program_task(["ls", "-l"], {"cwd": "in"}) == Command(argv=("ls", "-l"), cwd="in")
    assert program_task(None, {"shell": "ls | wc"}) == Command(shell="ls | wc")
    assert program_task(None, {"code": "1 + 1"}, keep=True) == Python(code="1 + 1", keep=True)


def test_a_text_in_place_of_words_is_a_shell_line() -> None:
    """Not a command of one letter each, which Python would make of it."""
    assert program_task("ls | wc", {}) == Command(shell="ls | wc")
    with pytest.raises(InvalidMessage, match="exactly one"):
        program_task("ls", {"shell": "ls"})


def test_an_option_with_a_typo_is_refused_and_the_right_one_named() -> None:
    """A task must not run without the timeout that its caller meant to give."""
    with pytest.raises(InvalidMessage, match="no option 'timeot_s', did you mean 'timeout_s'"):
        program_task(["ls"], {"timeot_s": 5})
    with pytest.raises(InvalidMessage, match="no option 'zzz'; there are: files, outputs"):
        common_fields({"zzz": 1})


def test_what_is_said_is_what_is_published(tmp_path: Path) -> None:
    """Files, environment and times come out of the encoded body as they went in."""
    binary = tmp_path / "tool"
    binary.write_bytes(b"\xff\x00")
    binary.chmod(0o755)
    options = {
        "files": {"a": "text", "b": b"\xfe", "c": binary},
        "env": {"X": "1"},
        "timeout_s": 5.0,
    }

    task = decode_task(encode_task(program_task(["true"], options)))

    assert task.files == (
        InputFile(path="a", text="text"),
        InputFile(path="b", data=b"\xfe"),
        InputFile(path="c", data=b"\xff\x00", mode=0o755),
    )
    assert (task.env, task.timeout_s) == ({"X": "1"}, 5.0)


@pytest.mark.parametrize(("argv", "options"), [(None, {}), (["x"], {"code": "y"})])
def test_not_exactly_one_thing_to_run_is_refused(
    argv: list[str] | None, options: dict[str, str]
) -> None:
    """None or two of program, line and code."""
    with pytest.raises(InvalidMessage, match="exactly one of argv, shell and code"):
        program_task(argv, options)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """The path stands in the message."""
    with pytest.raises(InvalidMessage, match="nothing-here: No such file"):
        input_file("x", tmp_path / "nothing-here")


def test_options_of_the_command_line_are_split() -> None:
    """`LOCAL[:PATH]` and `NAME=VALUE`."""
    assert split_file("a/b.txt") == ("b.txt", Path("a/b.txt"))
    assert split_file("a/b.txt:in/c.txt") == ("in/c.txt", Path("a/b.txt"))
    assert split_env("A=b=c") == ("A", "b=c")


def test_the_state_folder_follows_the_environment() -> None:
    """Named, else by XDG, else in the home folder."""
    assert default_state({"AGENT_SANDBOX_STATE": "/s", "HOME": "/h"}) == Path("/s")
    assert default_state({"XDG_STATE_HOME": "/x"}) == Path("/x/agent-sandbox")
    assert default_state({"HOME": "/h"}) == Path("/h/.local/state/agent-sandbox")


def test_access_is_named_or_from_the_environment_or_from_the_state_folder(tmp_path: Path) -> None:
    """In that order."""
    credential = Credential(jwt="j", seed="s")
    write_credential(tmp_path / "credentials" / "client.creds", credential)
    (tmp_path / "cluster.json").write_bytes(msgspec.json.encode({"servers": ["nats://a:1"]}))
    creds = tmp_path / "credentials" / "client.creds"
    environ = {
        "AGENT_SANDBOX_SERVERS": "nats://b:1, nats://b:2",
        "AGENT_SANDBOX_CREDENTIAL": str(creds),
    }

    named = find_access(ClientOptions(servers=("nats://c:1",), credential=creds), {})
    from_environ = find_access(ClientOptions(), environ)
    from_state = find_access(ClientOptions(state=tmp_path), environ)

    assert (named.servers, named.credential) == (("nats://c:1",), credential)
    assert (from_environ.servers, from_environ.credential) == (
        ("nats://b:1", "nats://b:2"),
        credential,
    )
    assert (from_state.servers, from_state.credential) == (("nats://a:1",), credential)


def test_the_authority_to_believe_is_named_or_from_the_environment(tmp_path: Path) -> None:
    """For servers and gateways elsewhere; an embedded cluster's servers speak no TLS, whatever the environment says."""
    named, other = tmp_path / "ca.crt", tmp_path / "other.crt"
    named.write_text("PEM")
    servers, gateways = ("tls://c:1",), ("https://g",)

    by_option = find_access(ClientOptions(servers=servers, ca=named), {"AGENT_SANDBOX_CA": "x"})
    by_environment = find_access(
        ClientOptions(servers=gateways, token="t"), {"AGENT_SANDBOX_CA": str(named)}
    )

    tls = bus_options(by_option).tls
    assert tls is not None
    assert tls.ca_file == str(named)
    assert by_environment.ca == named
    assert bus_options(find_access(ClientOptions(servers=servers), {})).tls is None
    with pytest.raises(NotFound, match=r"no certificates at .*other"):
        find_access(ClientOptions(servers=servers, ca=other), {})


def test_what_is_missing_for_access_is_said(tmp_path: Path) -> None:
    """No cluster, one that was never up, no credential: three different sentences."""
    with pytest.raises(NotFound, match="start one with `agent-sandbox up`"):
        find_access(ClientOptions(state=tmp_path), {})
    (tmp_path / "cluster.json").write_text("{}")
    with pytest.raises(Unavailable, match="was never up"):
        find_access(ClientOptions(state=tmp_path), {})
    (tmp_path / "cluster.json").write_text('{"servers": ["nats://a:1"]}')
    with pytest.raises(NotFound, match="no credential file"):
        find_access(ClientOptions(state=tmp_path), {})
    (tmp_path / "cluster.json").write_text("{")
    with pytest.raises(InvalidMessage, match="damaged"):
        find_access(ClientOptions(state=tmp_path), {})


@pytest.mark.parametrize("servers", [("ftp://h",), ("localhost:4222",), ("nats://",), "nats://h:1"])
def test_what_is_no_address_is_refused_at_once(servers: Any) -> None:
    """Taken for a NATS server it would cost ten seconds, and end with a riddle."""
    with pytest.raises(InvalidMessage, match=r"^servers: "):
        find_access(ClientOptions(servers=servers), {})


def test_a_cluster_that_was_ended_is_not_waited_for(tmp_path: Path) -> None:
    """Its addresses are still in the folder: ten seconds of silence would tell the user nothing."""
    write_credential(tmp_path / "credentials" / "client.creds", Credential(jwt="j", seed="s"))
    (tmp_path / "cluster.json").write_text('{"servers": ["nats://a:1"]}')
    table = tmp_path / "processes.json"
    for phase in ("stopped", "failed"):
        table.write_text(f'{{"phase": "{phase}", "rows": []}}')
        with pytest.raises(Unavailable, match="is down: start it with `agent-sandbox up`"):
            find_access(ClientOptions(state=tmp_path), {})
    for going_on in ('{"phase": "servers"}', '{"phase": "ready"}', "{", "{}"):
        table.write_text(going_on)
        assert find_access(ClientOptions(state=tmp_path), {}).servers == ("nats://a:1",)


def test_a_class_is_one_that_clients_may_ask_for() -> None:
    """`recovery` is the system's own."""
    assert [check_class(name) for name in ("interactive", "batch")] == ["interactive", "batch"]
    with pytest.raises(InvalidMessage, match="interactive or batch expected, got 'recovery'"):
        check_class("recovery")
