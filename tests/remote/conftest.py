"""One S3 server for all tests of this folder, and a place in it for each."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from headrace.core.addresses import Address
from headrace.state.storage.remote.bucket import Bucket, Patience, bucket
from tests.remote.server import BUCKET, Server, serving

SOON = Patience(connect_s=1.0, request_s=1.0, again_s=0.5, pause_s=0.05)
"""Time-outs of tests for a failing server."""


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """It is there for as long as tests run."""
    with serving() as server:
        yield server


@pytest.fixture
def place(server: Server) -> Address:
    """A folder of the bucket that no other test uses."""
    return Address("s3", BUCKET, uuid.uuid4().hex)


@pytest.fixture
def there(server: Server, place: Address, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """The objects of a job called bids in that folder."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    return bucket(place.below("bids"), SOON)
