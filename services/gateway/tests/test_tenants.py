"""The tenants' file: who reads it, and what may stand in it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from gateway import app
from gateway.adapters.tenants import TENANTS_MAX, Tenants
from shared.errors import Forbidden, InvalidMessage
from shared.testing.look import until


def write(path: Path, tenants: dict[str, list[str]], mode: int = 0o600) -> None:
    """Write tenant -> tokens."""
    entries = {
        tenant: {
            "token_sha256s": [hashlib.sha256(token.encode()).hexdigest() for token in tokens],
            "credential": "/none",
        }
        for tenant, tokens in tenants.items()
    }
    path.write_bytes(msgspec.json.encode({"tenants": entries}))
    path.chmod(mode)


def tenant_of(tenants: Tenants, token: str) -> str | None:
    """Return the tenant that a token lets in as."""
    admission = tenants.of_token(token)
    return None if admission is None else admission.tenant


def test_each_token_leads_to_its_tenant(tmp_path: Path) -> None:
    """Two for one while they are changed."""
    path = tmp_path / "tenants.json"
    write(path, {"one": ["a", "b"], "two": ["c"]})
    tenants = Tenants(path)
    assert tenants.refresh()
    assert [tenant_of(tenants, token) for token in "abcd"] == ["one", "one", "two", None]
    assert not tenants.refresh(), "it has not changed"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_file_that_others_read_is_refused(tmp_path: Path, mode: int) -> None:
    """Hashes are no tokens, but paths of credentials and names are nobody's business."""
    path = tmp_path / "tenants.json"
    write(path, {"one": ["a"]}, mode)
    with pytest.raises(Forbidden, match="0600"):
        Tenants(path).refresh()


def test_no_file_is_no_way_in(tmp_path: Path) -> None:
    """It does not start as open to all."""
    with pytest.raises(Forbidden):
        Tenants(tmp_path / "tenants.json").refresh()


def test_two_tenants_never_share_a_token(tmp_path: Path) -> None:
    """Whose requests would it be?"""
    path = tmp_path / "tenants.json"
    write(path, {"one": ["a"], "two": ["a"]})
    with pytest.raises(InvalidMessage, match="same token"):
        Tenants(path).refresh()


def test_so_many_tenants_and_no_more(tmp_path: Path) -> None:
    """Each may have a connection to the servers."""
    path = tmp_path / "tenants.json"
    write(path, {f"t{n}": [str(n)] for n in range(TENANTS_MAX)})
    assert Tenants(path).refresh()
    write(path, {f"t{n}": [str(n)] for n in range(TENANTS_MAX + 1)})
    with pytest.raises(InvalidMessage):
        Tenants(path).refresh()


def test_what_can_not_be_read_changes_nothing(tmp_path: Path) -> None:
    """A file that somebody is writing is read again later."""
    path = tmp_path / "tenants.json"
    write(path, {"one": ["a"]})
    tenants = Tenants(path)
    tenants.refresh()
    path.write_text("{")
    with pytest.raises(InvalidMessage):
        tenants.refresh()
    assert tenant_of(tenants, "a") == "one"
    write(path, {"one": ["b"]})
    assert tenants.refresh()
    assert tenants.of_token("a") is None


def test_what_is_wrong_with_the_file_is_said_once_for_each_change(tmp_path: Path) -> None:
    """It is looked at each second: a warning for each look would fill the log. What was read last holds."""
    path = tmp_path / "tenants.json"
    write(path, {"one": ["a"]})
    tenants = Tenants(path)
    tenants.refresh()

    path.write_text("{")
    with pytest.raises(InvalidMessage):
        tenants.refresh()
    assert not tenants.refresh()
    path.write_text("[[")
    with pytest.raises(InvalidMessage):
        tenants.refresh()
    path.chmod(0o644)
    with pytest.raises(Forbidden, match="0600"):
        tenants.refresh()
    assert not tenants.refresh()
    path.unlink()
    with pytest.raises(Forbidden):
        tenants.refresh()
    assert not tenants.refresh()
    assert tenant_of(tenants, "a") == "one"

    write(path, {"two": ["b"]})
    assert tenants.refresh()
    assert [tenant_of(tenants, token) for token in "ab"] == [None, "two"]


def test_what_holds_although_the_file_is_not_so_any_more_is_said(tmp_path: Path) -> None:
    """A file that is gone shuts nobody out: it may be a volume that is not there for a moment. But it is not silent."""
    path = tmp_path / "tenants.json"
    write(path, {"one": ["a"]})
    tenants = Tenants(path)
    tenants.refresh()
    before = tenants.of_token("a")
    assert (before is not None, tenants.problem) == (True, "")

    for spoil in (lambda: path.write_text("{"), lambda: path.chmod(0o644), path.unlink):
        spoil()
        with pytest.raises((Forbidden, InvalidMessage)):
            tenants.refresh()
        assert "tenants" in tenants.problem
        assert tenants.of_token("a") is before
        assert before is not None
        assert not before.withdrawn.is_set()

    write(path, {"one": ["a"]})
    assert tenants.refresh()
    assert (tenants.of_token("a"), tenants.problem) == (before, "")


def test_a_token_that_is_gone_or_anothers_is_withdrawn_and_no_other(tmp_path: Path) -> None:
    """Whoever came in by it is told so; who came in by one that is still there goes on."""
    path = tmp_path / "tenants.json"
    write(path, {"one": ["kept", "gone", "moved"], "two": ["other"]})
    tenants = Tenants(path)
    tenants.refresh()
    found = {token: tenants.of_token(token) for token in ("kept", "gone", "moved", "other")}
    write(path, {"one": ["kept"], "two": ["other", "moved"]})
    tenants.refresh()

    withdrawn = {token for token, one in found.items() if one and one.withdrawn.is_set()}
    assert withdrawn == {"gone", "moved"}
    assert tenants.of_token("kept") is found["kept"]
    assert tenant_of(tenants, "moved") == "two"


async def test_a_gateway_tells_its_monitoring_that_the_file_is_gone(
    start: Callable[..., Awaitable[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And that it is back. Whoever comes in meanwhile is let in as before."""
    monkeypatch.setattr(app, "FOLLOW_S", 0.05)
    place = tmp_path / "probes"
    gateway = await start(probes="127.0.0.1:0", probes_url_file=str(place))
    file = Path(gateway.settings.tenants_file)
    away = file.with_suffix(".away")
    url = (await asyncio.to_thread(place.read_text)).strip()

    async def says(value: float) -> None:
        async def is_so() -> bool:
            async with httpx.AsyncClient(verify=False) as http:
                text = (await http.get(f"{url}/metrics")).text
            return f"agent_sandbox_gateway_tenants_old {value}" in text

        await until(is_so)

    await says(0.0)
    await asyncio.to_thread(file.rename, away)
    await says(1.0)
    await asyncio.to_thread(away.rename, file)
    await says(0.0)
