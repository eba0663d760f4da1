"""Bucket of S3, GCS, Azure or a compatible server, through obstore.

obstore retries where that may help: when a connection breaks or the server reports a temporary
error. Requests and retries have time-outs, so nothing here waits for ever. Large objects are
uploaded in parts and read in ranges.

obstore takes credentials and endpoints from the environment: headrace never handles them, and does
not repeat obstore's error texts, which may contain whole requests.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from datetime import timedelta
from typing import IO, TYPE_CHECKING

from headrace.core.api.storage_url import StorageUrl
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.storage.remote.bucket_errors import translate_bucket_errors
from headrace.state.storage.remote.endpoints import check_endpoint
from headrace.state.storage.remote.object_storage import (
    ListedObject,
    ObjectVersion,
    PreconditionFailed,
    SizeMismatch,
    StoredObject,
)

if TYPE_CHECKING:
    from obstore import UpdateVersion
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

PART_BYTES = 8 << 20
"""Bytes per request."""
CONCURRENT_PARTS = 3
"""Number of concurrent requests for one object."""
NAMES_PER_LIST = 1000
"""Number of names that one request lists."""


@dataclass(frozen=True, slots=True)
class RequestTimeouts:
    """Time-outs of a server's requests."""

    connect_s: float = 5.0
    request_s: float = 30.0
    """Time-out of one request with its body: 8 MB take that long at 280 kB/s."""
    retry_s: float = 30.0
    """Time during which a request is retried."""
    pause_s: float = 0.2
    """Pause before the first retry; each further pause is twice as long, with random jitter."""


def open_bucket(address: StorageUrl, patience: RequestTimeouts | None = None) -> Bucket:
    """Open the objects below an address. Raises SnapshotError if the environment is incomplete."""
    from obstore.store import from_url

    check_endpoint(address.scheme, os.environ)
    patience = patience or RequestTimeouts()
    client: ClientConfig = {
        "connect_timeout": timedelta(seconds=patience.connect_s),
        "timeout": timedelta(seconds=patience.request_s),
        # obstore itself reads these only where no options are given.
        "allow_http": any(map(_is_set, ("AWS_ALLOW_HTTP", "AZURE_ALLOW_HTTP", "ALLOW_HTTP"))),
    }
    retry: RetryConfig = {
        "max_retries": 100,
        "retry_timeout": timedelta(seconds=patience.retry_s),
        "backoff": {
            "init_backoff": timedelta(seconds=patience.pause_s),
            "max_backoff": timedelta(seconds=5),
        },
    }
    with translate_bucket_errors(f"open {address}"):
        return Bucket(
            from_url(address.url, client_options=client, retry_config=retry), str(address)
        )


def open_reachable_bucket(address: StorageUrl) -> Bucket:
    """Open the objects of a server that has answered once, so that a wrong environment is reported
    soon.
    """
    open_bucket(address, RequestTimeouts(retry_s=3.0)).read("owner.json")
    return open_bucket(address)


def _is_set(name: str) -> bool:
    return os.environ.get(name, "").lower() in ("true", "1")


class Bucket:
    """`ObjectStorage` in a store of obstore."""

    def __init__(self, store: ObjectStore, address: str) -> None:
        self._store = store
        self.address = address

    def put(self, name: str, data: bytes) -> None:
        from obstore import put

        with translate_bucket_errors(f"write {self.address}/{name}"):
            put(self._store, name, data, chunk_size=PART_BYTES, max_concurrency=CONCURRENT_PARTS)

    def put_file(self, name: str, file: IO[bytes]) -> None:
        from obstore import put

        with translate_bucket_errors(f"write {self.address}/{name}"):
            put(self._store, name, file, chunk_size=PART_BYTES, max_concurrency=CONCURRENT_PARTS)

    def create(self, name: str, data: bytes) -> ObjectVersion:
        from obstore import put
        from obstore.exceptions import AlreadyExistsError

        try:
            with translate_bucket_errors(f"write {self.address}/{name}", AlreadyExistsError):
                result = put(self._store, name, data, mode="create")
        except AlreadyExistsError:
            raise PreconditionFailed from None
        return ObjectVersion(result["e_tag"], result["version"])

    def replace(self, name: str, data: bytes, version: ObjectVersion) -> ObjectVersion:
        from obstore import put
        from obstore.exceptions import PreconditionError

        seen: UpdateVersion = {}
        if version.tag is not None:
            seen["e_tag"] = version.tag
        if version.number is not None:
            seen["version"] = version.number
        try:
            with translate_bucket_errors(f"write {self.address}/{name}", PreconditionError):
                result = put(self._store, name, data, mode=seen)
        except PreconditionError:
            raise PreconditionFailed from None
        return ObjectVersion(result["e_tag"], result["version"])

    def read(self, name: str) -> StoredObject | None:
        from obstore import get

        try:
            with translate_bucket_errors(f"read {self.address}/{name}", FileNotFoundError):
                result = get(self._store, name)
                version = ObjectVersion(result.meta["e_tag"], result.meta["version"])
                return StoredObject(bytes(result.bytes()), version)
        except FileNotFoundError:
            return None

    def read_chunks(self, name: str, bytes: int) -> Iterator[bytes]:
        for start in range(0, max(bytes, 1), PART_BYTES):
            yield self._read_part(name, bytes, start)

    def list_objects(self, folder: str = "") -> dict[str, ListedObject]:
        from obstore import list

        with translate_bucket_errors(f"list {self.address}/{folder}"):
            return {
                each["path"]: ListedObject(
                    each["size"], ObjectVersion(each["e_tag"], each["version"])
                )
                for some in list(self._store, folder or None, chunk_size=NAMES_PER_LIST)
                for each in some
            }

    def remove(self, names: Collection[str]) -> None:
        from obstore import delete

        if names:
            with translate_bucket_errors(f"remove from {self.address}", FileNotFoundError):
                delete(self._store, [*names])

    def _read_part(self, name: str, bytes_: int, start: int) -> bytes:
        from obstore import get

        end = min(start + PART_BYTES, bytes_)
        try:
            with translate_bucket_errors(
                f"read {self.address}/{name}", FileNotFoundError, SizeMismatch
            ):
                # An empty range is invalid, also for an empty object.
                whole = get(self._store, name) if end == bytes_ and not start else None
                result = whole or get(self._store, name, options={"range": (start, end)})
                if result.meta["size"] != bytes_:
                    raise SizeMismatch(result.meta["size"])
                return bytes(result.bytes())
        except FileNotFoundError:
            raise SizeMismatch(None) from None
