"""A server's configuration as text, and its ports."""

from __future__ import annotations

import socket

import pytest

from shared.cluster import ServerLimits, ServerSettings, Trust, render
from shared.cluster.ports import (
    ServerPorts,
    find_free_ports,
    gateway_ports_from,
    ports_from,
    why_taken,
)


def settings(**changes: object) -> ServerSettings:
    """Return a server's settings."""
    values: dict[str, object] = {
        "name": "n1",
        "cluster": "test",
        "ports": ServerPorts(4222, 6222, 8222),
        "routes": ("127.0.0.1:6222", "127.0.0.1:6223", "127.0.0.1:6224"),
        "store_dir": "/state/n1/js",
        "log_file": "/state/n1/log",
        "trust": Trust("OPERATOR", "SYS", "EDGE", {"ACC": "TOKEN"}),
        **changes,
    }
    return ServerSettings(**values)  # type: ignore[arg-type]  # each test changes one


@pytest.mark.parametrize(
    "line",
    [
        'server_name: "n1"',
        'listen: "127.0.0.1:4222"',
        'http: "127.0.0.1:8222"',
        'ping_interval: "1000ms"',
        "ping_max: 2",
        "sync_interval: always",
        "max_payload: 1114112",
        "feature_flags { js_ack_fc_v2: false }",
        "max_inflight_per_stream: 1000",
        "resolver: MEMORY",
        "operator: OPERATOR",
        "ACC: TOKEN",
        '"nats://127.0.0.1:6224"',
    ],
)
def test_the_rules_of_the_design_stand_in_the_file(line: str) -> None:
    """Each was measured, and would be missed only under failure."""
    assert line in render(settings())


def test_the_same_settings_give_the_same_text() -> None:
    """A restart changes nothing by itself."""
    assert render(settings()) == render(settings())


def test_limits_are_explicit() -> None:
    """Never the server's own guess at the machine."""
    text = render(settings(limits=ServerLimits(memory_bytes=1, file_bytes=2, payload_bytes=3)))
    assert all(line in text for line in ("max_mem: 1\n", "max_file: 2\n", "max_payload: 3\n"))


def test_a_full_resolver_keeps_accounts_on_disk() -> None:
    """For clusters whose accounts change while they run."""
    text = render(settings(trust=Trust("OPERATOR", "SYS", "EDGE", {}, resolver_dir="/state/jwt")))
    assert 'type: full, dir: "/state/jwt"' in text


@pytest.mark.parametrize("path", ['/a"b', "/a\\b", "/a\nb"])
def test_a_path_cannot_end_its_quotes(path: str) -> None:
    """It would be read as configuration."""
    with pytest.raises(ValueError, match="quote"):
        render(settings(store_dir=path))


def test_ports_of_three_servers_and_two_gateways_are_fourteen_in_a_row() -> None:
    """The edges first: they are what people type. The gateways came later, and stand last."""
    ports = ports_from(4222, 3)
    assert [p.edge for p in ports] == [4222, 4223, 4224]
    assert {port for p in ports for _, port in p.named()} == set(range(4225, 4234))
    assert gateway_ports_from(4222, 3) == (4234, 4235)


def test_a_free_port_is_told_from_a_taken_one() -> None:
    """Also against a socket that listens right now."""
    (ports,) = find_free_ports(1)
    assert why_taken(ports.client) is None
    with socket.socket() as other:
        other.bind(("127.0.0.1", ports.client))
        other.listen()
        assert why_taken(ports.client) == "is in use"


def test_a_server_can_be_told_elsewhere_than_it_listens() -> None:
    """Behind an address translation, clients and servers must not learn the inner address."""
    text = render(settings(advertise_client="out.side:1", advertise_route="out.side:2"))
    assert 'client_advertise: "out.side:1"\n' in text
    assert '  advertise: "out.side:2"\n' in text
    plain = render(settings())
    assert "client_advertise" not in plain
    assert "  advertise:" not in plain
