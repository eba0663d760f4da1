"""One S3 server for all tests of this folder, and a place in it for each."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from headrace.core.api.storage_url import StorageUrl
from headrace.state.storage.remote.bucket import Bucket, open_bucket
from tests.support.s3.server import BUCKET, SOON, Server, serving


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """It is there for as long as tests run."""
    with serving() as server:
        yield server


@pytest.fixture
def place(server: Server) -> StorageUrl:
    """A folder of the bucket that no other test uses."""
    return StorageUrl("s3", BUCKET, uuid.uuid4().hex)


@pytest.fixture
def there(server: Server, place: StorageUrl, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """The objects of a job called bids in that folder."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return open_bucket(place.child("bids"), SOON)
