"""Servers that the environment names in a wrong way, and panics of the library that goes there."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.api.storage_url import parse_storage_url
from headrace.state.storage.remote.bucket import open_bucket
from headrace.state.storage.remote.bucket_errors import translate_bucket_errors
from headrace.state.storage.remote.endpoints import InvalidEndpoint, check_endpoint
from headrace.state.storage.remote.object_storage import RequestOutcomeUnknown
from tests.support.cli.command_line import Headrace

NAMES = {
    "AWS_ENDPOINT": "s3://data",
    "AWS_ENDPOINT_URL": "s3://data",
    "AWS_ENDPOINT_URL_S3": "s3://data",
    "GOOGLE_BASE_URL": "gs://data",
    "AZURE_STORAGE_ENDPOINT": "az://data",
    "AZURE_ENDPOINT": "az://data",
}
# obstore panics at each of them but the ftp.
WRONG = [
    *("", "nonsense", "localhost:9000", "http://", "http:/x", "http:///x", "ftp://x"),
    *("http://a b", "http://x ", "http://x/a b", "http://ü", "http://a|b", "http://x:99999"),
    *("http://256.1.1.1", "http://[::1", "http://[1:2]"),
]
RIGHT = [
    *("http://localhost:9000", "HTTPS://minio.example", "http://a_b:1/path/", "http://[::1]:1"),
    *("http://127.0.0.1:9000", "https://acc.blob.core.windows.net", "http://x"),
]


@pytest.fixture(autouse=True)
def no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(("name", "url"), NAMES.items())
def test_every_variable_is_looked_at(monkeypatch: pytest.MonkeyPatch, name: str, url: str) -> None:
    monkeypatch.setenv(name, "localhost:9000")
    with pytest.raises(InvalidEndpoint, match=f'^{name}: wanted a URL .* got "localhost:9000"$'):
        open_bucket(parse_storage_url(url))


@pytest.mark.parametrize("said", WRONG)
def test_what_is_no_url_is_refused(said: str) -> None:
    with pytest.raises(InvalidEndpoint):
        check_endpoint("s3", {"AWS_ENDPOINT_URL": said})


@pytest.mark.parametrize("said", RIGHT)
def test_what_is_one_is_taken(said: str) -> None:
    check_endpoint("s3", {"AWS_ENDPOINT_URL": said})


def test_what_may_be_a_password_is_not_repeated() -> None:
    for said in ("http://me:secret@x", "secret@", "https://x?sig=secret", "http://x#secret"):
        with pytest.raises(InvalidEndpoint) as caught:
            check_endpoint("s3", {"AWS_ENDPOINT_URL": said})
        assert "secret" not in f"{caught.value.message}{caught.value.hint}"


def test_what_does_not_count_is_not_looked_at() -> None:
    check_endpoint("s3", {"AWS_ENDPOINT_URL_S3": "http://x", "AWS_ENDPOINT_URL": "nonsense"})
    check_endpoint("gs", {"AWS_ENDPOINT_URL": "nonsense"})


def test_a_run_says_which_variable_is_wrong(
    headrace: Headrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "localhost:9000")
    (tmp_path / "p.yaml").write_text(
        "name: p\nsources: {n: {generate: {rows: 1, columns: {x: id}}}}\n"
        "sinks: {out: {from: n, files: {path: out}}}\n"
        "settings: {checkpoint: {dir: 's3://data/p'}}\n"
    )
    ran = headrace("run", "p.yaml")
    assert (ran.status, ran.out) == (2, "")
    wanted = 'AWS_ENDPOINT_URL: wanted a URL as http://host:port, got "localhost:9000"'
    assert ran.err.splitlines() == [f"p.yaml: {wanted}"]
    for command in (["ls"], ["show"]):
        ran = headrace("state", *command, "s3://data/p", *(["n"] if command == ["show"] else []))
        assert (ran.status, ran.err) == (2, f"headrace: {wanted}\n")


def test_a_panic_is_reported_as_the_failed_operation() -> None:
    from obstore import get
    from obstore.store import S3Store

    store = S3Store("data", endpoint="nonsense", region="x", skip_signature=True)
    with (
        pytest.raises(RequestOutcomeUnknown) as caught,
        translate_bucket_errors("read s3://data/x"),
    ):
        get(store, "x")
    assert caught.value.message == "cannot read s3://data/x: the client of the bucket failed"
    with pytest.raises(SystemExit), translate_bucket_errors("read s3://data/x"):
        raise SystemExit
