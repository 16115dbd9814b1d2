"""Which store is taken, and which is refused: a liar, another cluster's, one that is not there, a setting that is none."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import obstore
import pytest
from msgspec.structs import replace

from checkpointer.adapters.stores.local import LocalStore
from checkpointer.adapters.stores.opening import open_store, parse_address
from checkpointer.adapters.stores.s3 import S3Address, S3Store
from checkpointer.loops.probe_store import LyingStore, probe_store
from checkpointer.ports.blobs import BlobStore, StoredPack
from checkpointer.testing.fault_store import FaultStore, at, every
from checkpointer.testing.s3_server import make_bucket
from shared.errors import InvalidMessage, NotFound, Rejected, Unavailable
from shared.testing.names import unique


class Liar(FaultStore):
    """A store that does one thing wrong."""

    def __init__(self, store: LocalStore, lie: str) -> None:
        """Lie about `lie`."""
        super().__init__(store)
        self._lie = lie
        self._kept: dict[str, bytes] = {}

    async def put(self, key: str, data: bytes) -> None:
        """Store, more or less."""
        if self._lie == "replaces":
            await super().delete(key)
        if self._lie == "loses":
            return
        if self._lie == "takes the second in silence" and self.calls.count(("put", key)):
            return
        await super().put(key, data[:-1] if self._lie == "cuts" else data)
        self._kept[key] = data

    async def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """Read, more or less."""
        if self._lie == "ignores ranges":
            return await super().get(key)
        if self._lie == "refuses a whole range" and length == 6000:
            raise InvalidMessage("InvalidRange")
        if self._lie == "reads what is gone" and key in self._kept:
            return self._kept[key][start : None if length is None else start + length]
        return await super().get(key, start, length)

    async def list(self, prefix: str = "") -> AsyncIterator[StoredPack]:
        """List, more or less."""
        async for pack in super().list(prefix):
            if self._lie == "lists wrong sizes":
                yield StoredPack(pack.key, pack.size_bytes + 1, pack.stored_ms)
            elif self._lie != "lists nothing":
                yield pack


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ("replaces", "stored a second time under a name that was used: create-only is ignored"),
        ("takes the second in silence", "create-only is ignored"),
        ("loses", "did not return what was just stored"),
        ("cuts", "returned 5999 other bytes instead of what was just stored"),
        ("ignores ranges", "returned 6000 other bytes instead of bytes 0 to 10 of 6000"),
        ("refuses a whole range", "did not return bytes 0 to 6000 of 6000: InvalidRange"),
        ("reads what is gone", "still returns what was removed"),
        ("lists wrong sizes", "its listing says that 6000 bytes are 6001"),
        ("lists nothing", "its listing does not show what was stored"),
    ],
)
async def test_a_store_that_lies_is_refused_with_what_it_did_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: str, said: str
) -> None:
    """Each of these has been seen in a server that calls itself compatible."""
    monkeypatch.setattr("checkpointer.loops.probe_store.LISTED_S", 0.2)
    store = await LocalStore.open(tmp_path, "this")
    with pytest.raises(LyingStore, match=said):
        await probe_store(Liar(store, lie))
    await probe_store(store)
    await store.close()


async def test_a_store_that_is_down_is_no_liar(tmp_path: Path) -> None:
    """It is probed again when it is back."""
    store = await LocalStore.open(tmp_path, "this")
    clean = FaultStore(store)
    await probe_store(clean)
    for number in range(len(clean.calls) - 1):
        with pytest.raises(Unavailable):
            await probe_store(FaultStore(store, at(number, "before")))
    with pytest.raises(LyingStore):
        await probe_store(FaultStore(store, every("get", "corrupt")))
    await store.close()


async def test_each_cluster_needs_a_store_of_its_own(tmp_path: Path, s3_url: str) -> None:
    """Otherwise each would collect the other's packs as garbage. The same cluster finds the same store again."""
    address = make_bucket(s3_url, unique("bucket").lower())
    first = await S3Store.open(address, "this")
    again = await S3Store.open(address, "this")
    assert first.id == again.id
    with pytest.raises(Rejected, match="holds the packs of another cluster"):
        await S3Store.open(address, "other")
    other = await S3Store.open(replace(address, prefix="other"), "other")
    assert other.id != first.id

    local = await LocalStore.open(tmp_path, "this")
    same = await LocalStore.open(tmp_path, "this")
    assert local.id == same.id
    with pytest.raises(Rejected, match="holds the packs of another cluster"):
        await LocalStore.open(tmp_path, "other")
    for store in (local, same):
        await store.close()


async def test_a_bucket_that_is_not_there_is_said(s3_url: str) -> None:
    """By its name; and so is a server that does not answer."""
    missing = make_bucket(s3_url, unique("bucket").lower())
    with pytest.raises(NotFound, match="open s3://nowhere-at-all/: there is no such bucket"):
        await S3Store.open(replace(missing, bucket="nowhere-at-all"), "this")
    with pytest.raises(Unavailable, match="open s3://"):
        await S3Store.open(replace(missing, endpoint="http://127.0.0.1:1"), "this")


class Unable(http.server.BaseHTTPRequestHandler):
    """A server that does nothing of what it is asked."""

    def do_PUT(self) -> None:
        """Say so."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_error(501)

    def log_message(self, *_: object) -> None:
        """Say nothing more."""


async def test_a_store_that_lacks_a_verb_is_refused() -> None:
    """At once and with what it lacks: to try again would be of no use."""
    with http.server.HTTPServer(("127.0.0.1", 0), Unable) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        address = S3Address(
            bucket="bucket",
            endpoint=f"http://127.0.0.1:{server.server_port}",
            access_key_id="k",
            secret_access_key="s",
        )
        with pytest.raises(Rejected, match="the store does not do that"):
            await S3Store.open(address, "this")
        server.shutdown()
        thread.join(5)


async def test_no_secret_is_said(s3_url: str) -> None:
    """Neither by the address nor by an error that quotes what the server said."""
    address = replace(
        make_bucket(s3_url, unique("bucket").lower()),
        endpoint="http://127.0.0.1:1/very-secret/very-token",
        secret_access_key="very-secret",
        session_token="very-token",
    )
    with pytest.raises(Unavailable) as caught:
        await S3Store.open(address, "this")
    for text in (str(caught.value), repr(address), f"{address}"):
        assert "very-secret" not in text
        assert "very-token" not in text


def credentials(folder: Path, mode: int = 0o600, **known: object) -> str:
    """Return a credentials file."""
    file = folder / "credentials.json"
    file.write_text(json.dumps(known or {"access_key_id": "k", "secret_access_key": "s3cret"}))
    file.chmod(mode)
    return str(file)


def test_an_address_says_which_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With who we are from a file, else from the environment."""
    assert parse_address("local:/var/packs", None) == Path("/var/packs")
    assert parse_address("/var/packs", None) == Path("/var/packs")
    found = parse_address(
        "s3://bucket/some/prefix/?endpoint=http://127.0.0.1:9000&region=eu-west-1",
        credentials(tmp_path),
    )
    assert found == S3Address(
        bucket="bucket",
        prefix="some/prefix",
        endpoint="http://127.0.0.1:9000",
        region="eu-west-1",
        access_key_id="k",
        secret_access_key="s3cret",
    )
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-environment")
    by_environment = parse_address("s3://bucket", None)
    assert isinstance(by_environment, S3Address)
    assert by_environment.access_key_id == "from-environment"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("local:relative", "expected"),
        ("local://host/path", "expected"),
        ("ftp://bucket", "expected"),
        ("", "expected"),
        ("s3://", "expected"),
        ("s3://key:s3cret@bucket/", "no user, password or port"),
        ("s3://bucket/?secret_access_key=s3cret", "unknown in its address: secret_access_key"),
    ],
)
async def test_what_is_no_address_is_refused(address: str, said: str) -> None:
    """With what is wrong about it, and without what may be secret."""
    with pytest.raises(InvalidMessage, match=said) as caught:
        await open_store(address, None, None)
    assert "s3cret" not in str(caught.value)


def test_a_credentials_file_is_its_owner_s_alone(tmp_path: Path) -> None:
    """And holds what it must; no error shows what is in it."""
    with pytest.raises(InvalidMessage, match="others may read it"):
        parse_address("s3://bucket", credentials(tmp_path, mode=0o640))
    with pytest.raises(InvalidMessage, match="secret_access_key, session_token expected"):
        parse_address("s3://bucket", credentials(tmp_path, access_key_id="s3cret"))
    with pytest.raises(InvalidMessage, match="not JSON with text values") as caught:
        parse_address("s3://bucket", credentials(tmp_path, access_key_id=["s3cret"]))
    assert "s3cret" not in str(caught.value)
    with pytest.raises(InvalidMessage, match="No such file"):
        parse_address("s3://bucket", str(tmp_path / "missing"))


@pytest.fixture(params=["local", "s3"])
async def store_that_goes(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[BlobStore, Callable[[], None]]]:
    """A store, and what puts an empty place where it was: a disk that is not mounted any more, say."""
    opened: BlobStore
    if request.param == "local":
        opened = await LocalStore.open(tmp_path / "packs", "this")
        there = tmp_path / "packs"

        def go() -> None:
            there.rename(tmp_path / "elsewhere")
            there.mkdir()
    else:
        address = make_bucket(request.getfixturevalue("s3_url"), unique("bucket").lower())
        opened = await S3Store.open(address, "this")
        bucket = opened._bucket

        def go() -> None:
            obstore.delete(bucket, [found["path"] for found in obstore.list(bucket).collect()])

    yield opened, go
    await opened.close()


async def test_of_a_store_that_is_gone_nothing_is_believed_to_be_missing(
    store_that_goes: tuple[BlobStore, Callable[[], None]],
) -> None:
    """Else a session would begin anew, empty, though its files are there as soon as the store is there again."""
    store, go = store_that_goes
    key = store.new_key("acme", "session01")
    await store.put(key, b"precious")
    go()

    for ask in (store.get(key), store.get(key, 1, 2), store.size(key)):
        with pytest.raises(Unavailable, match="not there any more"):
            await ask
    with pytest.raises(Unavailable, match="not there any more"):
        _ = [pack async for pack in store.list("acme/")]


async def test_nothing_is_done_in_a_folder_that_is_another_store_now(tmp_path: Path) -> None:
    """Neither read, written nor removed: two disks were mounted the wrong way round."""
    store = await LocalStore.open(tmp_path / "packs", "this")
    other = await LocalStore.open(tmp_path / "other", "this")
    key = store.new_key("acme", "session01")
    await other.put(key, b"the other's")
    (tmp_path / "packs").rename(tmp_path / "elsewhere")
    (tmp_path / "other").rename(tmp_path / "packs")

    for ask in (
        store.put(store.new_key("acme", "session01"), b"new"),
        store.get(store.new_key("acme", "session01")),
        store.delete(key),
    ):
        with pytest.raises(Unavailable, match="another store is there"):
            await ask
    assert (tmp_path / "packs" / key).read_bytes() == b"the other's"
    await store.close()
    await other.close()
