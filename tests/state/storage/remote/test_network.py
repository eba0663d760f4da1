"""A real server and a network that breaks: retries, messages, and known outcomes."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.core.api.snapshots import DamagedSnapshot, SnapshotError, StoreError, UnknownOutcome
from headrace.core.api.storage_url import StorageUrl
from headrace.state.storage.local_disk import LocalDisk
from headrace.state.storage.remote.bucket import RequestTimeouts, open_bucket
from headrace.state.storage.remote.checkpoint_repository import own_checkpoints
from headrace.state.storage.remote.object_storage import RequestOutcomeUnknown
from headrace.state.storage.remote.store import RemoteSnapshotStore
from tests.support.s3.proxy import SECRET, Harm, Proxy, between
from tests.support.s3.server import Server
from tests.support.state.checkpointing_job import NOW
from tests.support.state.manifests import build_blob_manifest

LONG = RequestTimeouts(connect_s=5.0, request_s=10.0, retry_s=10.0, pause_s=0.02)
SOON = RequestTimeouts(connect_s=5.0, request_s=10.0, retry_s=0.3, pause_s=0.02)
AT_ONCE = RequestTimeouts(connect_s=5.0, request_s=0.3, retry_s=0.1, pause_s=0.02)


@pytest.fixture
def proxy(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """The network: the environment leads there."""
    with between(server.port) as proxy:
        for name, value in server.environment(proxy.port).items():
            monkeypatch.setenv(name, value)
        yield proxy


@dataclass(frozen=True)
class Begun:
    """A store of a job that has begun."""

    store: RemoteSnapshotStore
    proxy: Proxy

    def commit(self, number: int, *data: bytes) -> None:
        """A checkpoint of these."""
        blobs = [self.store.put(each) for each in data]
        self.store.commit(number, build_blob_manifest(blobs))


@pytest.fixture
def patience() -> RequestTimeouts:
    """Tests that want another one say so."""
    return LONG


@pytest.fixture
def begun(proxy: Proxy, place: StorageUrl, patience: RequestTimeouts) -> Iterator[Begun]:
    """A job that has begun before anything comes to harm."""
    objects = open_bucket(place.child("bids"), patience)
    with own_checkpoints(objects, "bids", "home", LocalDisk(), lambda: NOW) as cabinet:
        store = cabinet.open_store(cabinet.ensure_job_id(NOW))
        yield Begun(store, proxy)
        proxy.harm = lambda method, path: ""


soon = pytest.mark.parametrize("patience", [SOON])


@pytest.mark.parametrize("harm", ["no connection", "503"])
@pytest.mark.parametrize("what", ["PUT blobs", "PUT owner", "PUT manifests", "GET bids", "POST"])
def test_what_may_pass_is_tried_again(begun: Begun, harm: Harm, what: str) -> None:
    begun.proxy.first(harm, what, 2)
    begun.commit(1, b"abc")
    begun.store.collect(begun.store.list_checkpoints())
    begun.commit(2, b"def")
    begun.store.collect([2])
    assert begun.store.list_checkpoints() == [2]
    assert begun.store.is_whole(2)


@pytest.mark.parametrize("harm", ["unheard", "cut"])
@pytest.mark.parametrize("what", ["PUT blobs", "PUT owner", "PUT manifests"])
def test_a_request_that_broke_is_settled(begun: Begun, harm: Harm, what: str) -> None:
    """Whether it was done or not: it is looked at what there is."""
    begun.proxy.first(harm, what)
    try:
        begun.commit(1, b"abc")
    except StoreError as error:
        assert not isinstance(error, UnknownOutcome)
        assert begun.store.list_checkpoints() == []
    else:
        assert begun.store.list_checkpoints() == [1]
    begun.commit(2, b"abc")
    assert begun.store.list_checkpoints()[-1] == 2
    assert begun.store.is_whole(2)


def down(method: str, path: str) -> Harm:
    return "no connection"


def only_reads(method: str, path: str) -> Harm:
    return "" if method == "GET" else "no connection"


@soon
def test_a_server_that_is_away_fails_a_checkpoint_and_not_the_next(begun: Begun) -> None:
    begun.commit(1, b"abc")
    begun.proxy.harm = down
    with pytest.raises(StoreError, match=r"cannot write s3://bucket/.*/blobs/\w{32}: ") as caught:
        begun.commit(2, b"def")
    assert not isinstance(caught.value, UnknownOutcome)
    begun.proxy.harm = lambda method, path: ""
    begun.commit(3, b"def")
    assert begun.store.list_checkpoints() == [1, 3]


@soon
@pytest.mark.parametrize("was_done", [False, True])
def test_a_manifest_of_which_nobody_can_tell_is_settled_later(begun: Begun, was_done: bool) -> None:
    def harm(method: str, path: str) -> Harm:
        if method == "PUT" and "manifests" in path:
            begun.proxy.harm = down
            return "unheard" if was_done else "no connection"
        return ""

    begun.proxy.harm = harm
    with pytest.raises(UnknownOutcome, match="it is unknown whether checkpoint 1 is there"):
        begun.commit(1, b"abc")
    for ask in (
        begun.store.list_checkpoints,
        lambda: begun.commit(2),
        lambda: begun.store.discard(1),
    ):
        with pytest.raises(SnapshotError):
            ask()
    begun.proxy.harm = lambda method, path: ""
    assert begun.store.list_checkpoints() == [1]
    assert begun.store.is_whole(1)


def test_a_server_that_says_nothing_is_not_waited_for(proxy: Proxy, place: StorageUrl) -> None:
    proxy.harm = lambda method, path: "silence"
    with pytest.raises(RequestOutcomeUnknown, match="the server did not answer in time"):
        open_bucket(place, AT_ONCE).create("x", b"")


@pytest.mark.parametrize("harm", ["half", "garbled", "no connection"])
def test_what_was_spoiled_on_the_way_is_read_again(begun: Begun, harm: Harm) -> None:
    data = b"some bytes" * 1000
    begun.commit(1, data)
    blob = begun.store.put(data)
    begun.proxy.first(harm, "GET blobs")
    assert begun.store.read(blob) == data


def test_what_is_spoiled_again_and_again_is_damage(begun: Begun, tmp_path: Path) -> None:
    begun.commit(1, b"some bytes")
    blob = begun.store.put(b"some bytes")
    begun.proxy.harm = lambda method, path: "garbled" if "blobs" in path else ""
    with pytest.raises(DamagedSnapshot, match="its 10 bytes are not those that were written"):
        begun.store.fetch(blob, str(tmp_path / "file"))
    assert list(tmp_path.iterdir()) == []


REFUSALS: list[tuple[Harm, str, str]] = [
    ("403", "the server says 403 Forbidden, AccessDenied", "see which rights docs/remote.md lists"),
    ("404", "there is no such bucket", "it must be created first"),
    ("503", "the server says 503 Service Unavailable, SlowDown", ""),
    ("no connection", "the connection broke", ""),
]


@soon
@pytest.mark.parametrize(("harm", "said", "hint"), REFUSALS)
def test_a_servers_message_is_reported_without_repetition(
    begun: Begun, harm: Harm, said: str, hint: str
) -> None:
    asks: list[Callable[[], object]] = [
        lambda: begun.commit(1, b"abc"),
        lambda: begun.commit(1),
        begun.store.list_checkpoints,
    ]
    begun.proxy.harm = lambda method, path: harm
    for ask in asks:
        with pytest.raises(StoreError) as caught:
            ask()
        assert said in caught.value.message
        assert caught.value.hint.startswith(hint)
        told = "".join(traceback.format_exception(caught.value))
        assert SECRET not in told and "THE-SECRET-OF-TESTS" not in told


def test_a_checkpoint_costs_as_many_requests_as_the_page_says(begun: Begun) -> None:
    begun.commit(1, b"one")
    begun.store.collect([1])
    begun.proxy.asked.clear()
    begun.commit(2, b"two", b"three")
    begun.store.collect(begun.store.list_checkpoints()[-1:])
    kinds = sorted(asked.split()[0] for asked in begun.proxy.asked)
    # Blobs, the record, the manifest; the record, two lists; removed manifests and blobs.
    assert kinds == ["GET"] * 3 + ["POST"] * 2 + ["PUT"] * 4
