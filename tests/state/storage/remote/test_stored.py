"""A job whose checkpoints are in a bucket, as an older version left it, is resumed from there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.core.api.storage_url import StorageUrl
from headrace.state.storage.remote.bucket import open_bucket
from tests.recovery.stored.site import BY_NAME, drain, final, has_read
from tests.recovery.stored.write import REMOTE, newest_there
from tests.recovery.test_stored import drained_behind, expected, left
from tests.support.cli.command_line import Headrace
from tests.support.s3.server import BUCKET, SOON, Server


def test_a_bucket_that_was_stored_is_resumed_from(
    headrace: Headrace, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    folder, stored = Path(), BY_NAME["changes"]
    visible, rows = left(folder, stored, "bucket")
    objects = open_bucket(StorageUrl("s3", BUCKET, "stored").child(stored.name), SOON)
    for path in (path for path in (folder / "bucket").rglob("*") if path.is_file()):
        objects.put(str(path.relative_to(folder / "bucket")), path.read_bytes())

    words = [word for value in (*stored.waits, REMOTE) for word in ("--set", value)]
    with drained_behind(
        lambda: has_read(newest_there(objects), rows), lambda: drain(folder, stored)
    ):
        ran = headrace("run", f"{stored.name}.yaml", *words)
    assert ran.status == 0, ran.err
    assert json.loads(json.dumps(final(folder, stored, visible))) == expected(stored)
