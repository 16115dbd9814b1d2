"""Packs as objects of an S3-compatible store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import msgspec
import obstore
from obstore import exceptions as errors
from obstore.store import S3Store as Bucket

from checkpointer.adapters.stores import marks, names
from checkpointer.core.keys import parse_key, parse_prefix
from checkpointer.ports.blobs import StoredPack
from shared.errors import (
    AlreadyDone,
    Forbidden,
    InvalidMessage,
    NotFound,
    OutcomeUnknown,
    Rejected,
    ServiceError,
    Unavailable,
)

if TYPE_CHECKING:
    from obstore.store import S3Config

PACK_BYTES = 16 * 1024 * 1024
CALL_S = 60.0
"""Longest a call takes; of a listing, each of its pages."""
CONNECT_S = 5.0
LIST_AT_ONCE = 1000
MESSAGE_LENGTH_MAX = 400
"""Characters of the library's errors, which quote whole answers."""
T = TypeVar("T")


class S3Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a bucket is, and who we are there."""

    bucket: str
    prefix: str = ""
    """Of all keys; empty: the bucket is all ours."""
    endpoint: str = ""
    """URL of the server; empty: Amazon's of the region."""
    region: str = "us-east-1"
    access_key_id: str = ""
    """Empty: as the environment, or the machine, says."""
    secret_access_key: str = ""
    session_token: str = ""

    def __repr__(self) -> str:
        """Return it without what is secret."""
        return f"s3://{self.bucket}/{self.prefix}"

    def secrets(self) -> list[str]:
        """Return what must stand in no message."""
        found = (self.secret_access_key, self.session_token, self.access_key_id)
        return [secret for secret in found if secret]


class S3Store:
    """A store in a bucket."""

    pack_bytes = PACK_BYTES

    def __init__(self, address: S3Address, store_id: str = "") -> None:
        """Use `S3Store.open`."""
        self.id = store_id
        self._address = address
        self._bucket = _bucket(address)

    @classmethod
    async def open(cls, address: S3Address, cluster: str) -> S3Store:
        """Open the store in a bucket, which must exist; mark it as a cluster's, where it is nobody's.

        Args:
            address: where it is, and who we are.
            cluster: whose it must be, or becomes; empty: whoever's, and nothing is made.

        Raises:
            Rejected: it is another cluster's.
            NotFound, Forbidden: there is no such bucket, or we may not use it.
            Unavailable: no answer.
        """
        store = cls(address)
        mark = marks.fresh("s3", cluster)
        with store._translated(f"open {address!r}", unknown=Unavailable, missing="bucket"):
            if not (cluster and await store._mark(mark)):
                mark = await store._read_mark(cluster)
        store.id = mark.id
        return store

    async def _mark(self, mark: marks.Mark) -> bool:
        """Leave a mark in the bucket; return whether there was none."""
        try:
            await _within(
                obstore.put_async(self._bucket, marks.NAME, marks.write(mark), mode="create")
            )
        except (errors.AlreadyExistsError, errors.PreconditionError):
            return False
        return True

    async def _read_mark(self, cluster: str) -> marks.Mark:
        found = await _within(obstore.get_async(self._bucket, marks.NAME))
        data = bytes(await _within(found.bytes_async()))
        return marks.read(data, repr(self._address), cluster)

    async def _check_mark(self) -> None:
        """Make sure that the bucket is still the store that was opened: what is not there is missing only then.

        Raises:
            Unavailable: it is gone, or another one is in its place.
        """
        try:
            with self._translated(f"look at {self._address!r}", unknown=Unavailable):
                found = (await self._read_mark("")).id
        except (NotFound, InvalidMessage) as exc:
            raise Unavailable(f"{self._address!r}: the store is not there any more") from exc
        if found != self.id:
            raise Unavailable(f"{self._address!r}: another store is there, {found}")

    def new_key(self, tenant: str, session: str) -> str:
        """Return a new key; see `BlobStore`."""
        return names.new_key(tenant, session)

    async def put(self, key: str, data: bytes) -> None:
        """Store a pack; see `BlobStore`."""
        parse_key(key)
        with self._translated(f"put {key}", unknown=OutcomeUnknown):
            try:
                await _within(
                    obstore.put_async(self._bucket, key, data, mode="create", use_multipart=False)
                )
            except (errors.AlreadyExistsError, errors.PreconditionError) as exc:
                raise AlreadyDone(f"put {key}: there is a pack of that name") from exc
            except errors.NotFoundError as exc:
                raise Unavailable(f"put {key}: there is no such bucket") from exc

    async def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """Return a pack's bytes; see `BlobStore`."""
        parse_key(key)
        if not start and length is None:
            return await self._whole(key)
        size = await self.size(key)
        if start > size:
            raise InvalidMessage(f"get {key}: it has {size} bytes, asked from {start}")
        end = size if length is None else min(size, start + length)
        if start == end:
            return b""
        async with self._believing_absence(f"get {key}"):
            found = await _within(obstore.get_range_async(self._bucket, key, start=start, end=end))
            data = bytes(found)
        if len(data) != end - start:
            raise InvalidMessage(
                f"get {key}: the store returned {len(data)} bytes instead of {end - start}"
            )
        return data

    async def size(self, key: str) -> int:
        """Return a pack's size; see `BlobStore`."""
        parse_key(key)
        async with self._believing_absence(f"size {key}"):
            return int((await _within(obstore.head_async(self._bucket, key)))["size"])

    async def list(self, prefix: str = "") -> AsyncIterator[StoredPack]:
        """Yield all packs; see `BlobStore`."""
        parse_prefix(prefix)
        what = f"list {prefix or 'all'}"
        pages = obstore.list(self._bucket, prefix or None, chunk_size=LIST_AT_ONCE)
        while True:
            with self._translated(what, unknown=Unavailable):
                page = await _within(anext(pages, None))
            if page is None:
                await self._check_mark()
                return
            for found in page:
                try:
                    parse_key(found["path"])
                except InvalidMessage:
                    continue  # the store's mark, somebody else's object
                stored_ms = int(found["last_modified"].timestamp() * 1000)
                yield StoredPack(found["path"], int(found["size"]), stored_ms)

    async def delete(self, key: str) -> None:
        """Remove a pack; see `BlobStore`."""
        parse_key(key)
        try:
            with self._translated(f"delete {key}", unknown=OutcomeUnknown):
                await _within(obstore.delete_async(self._bucket, key))
        except NotFound:
            return

    async def close(self) -> None:
        """See `BlobStore`: connections close with the object."""

    async def _whole(self, key: str) -> bytes:
        async with self._believing_absence(f"get {key}"):
            found = await _within(obstore.get_async(self._bucket, key))
            data = bytes(await _within(found.bytes_async()))
        if len(data) != found.meta["size"]:
            raise InvalidMessage(
                f"get {key}: the store returned {len(data)} of {found.meta['size']} bytes"
            )
        return data

    @asynccontextmanager
    async def _believing_absence(self, what: str) -> AsyncIterator[None]:
        try:
            with self._translated(what, unknown=Unavailable):
                yield
        except NotFound:
            await self._check_mark()
            raise

    @contextmanager
    def _translated(
        self, what: str, *, unknown: type[ServiceError], missing: str = "pack"
    ) -> Iterator[None]:
        """Turn the library's errors into ours."""
        try:
            yield
        except (errors.NotFoundError, FileNotFoundError) as exc:
            raise NotFound(f"{what}: there is no such {missing}") from exc
        except (errors.PermissionDeniedError, errors.UnauthenticatedError, PermissionError) as exc:
            raise Forbidden(f"{what}: {self._said(exc)}") from None
        except TimeoutError as exc:
            raise unknown(f"{what}: no answer for {CALL_S:.0f} s") from exc
        except (errors.BaseError, OSError) as exc:
            if "501 Not Implemented" in str(exc):
                raise Rejected(f"{what}: the store does not do that: {self._said(exc)}") from None
            raise unknown(f"{what}: {self._said(exc)}") from None

    def _said(self, error: Exception) -> str:
        """Return what the library says, without secrets and in one line."""
        text = " ".join(str(error).split())
        for secret in self._address.secrets():
            text = text.replace(secret, "…")
        return text[:MESSAGE_LENGTH_MAX]


async def _within(answer: Awaitable[T]) -> T:
    async with asyncio.timeout(CALL_S):
        return await answer


def _bucket(address: S3Address) -> Bucket:
    config: S3Config = {"region": address.region}
    if address.endpoint:
        config["endpoint"] = address.endpoint
    if address.access_key_id:
        config["access_key_id"] = address.access_key_id
        config["secret_access_key"] = address.secret_access_key
    if address.session_token:
        config["session_token"] = address.session_token
    return Bucket(
        address.bucket,
        prefix=address.prefix or None,
        config=config,
        client_options={
            "allow_http": address.endpoint.startswith("http:"),
            "connect_timeout": timedelta(seconds=CONNECT_S),
            "timeout": timedelta(seconds=CALL_S),
        },
        # Whoever asks tries again himself, under a name of his choice.
        retry_config={"max_retries": 0, "retry_timeout": timedelta(seconds=CALL_S)},
    )
