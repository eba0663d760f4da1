"""Writes the stored jobs again, with the code of the commit that runs it.

    python -m tests.recovery.stored.write FOLDER [NAME ...]

The fixtures of a commit are not to be written again by a later one: they are what an older version
left. A new kind of state gets a new pipeline, or a new folder beside the first.

Of each pipeline there are, as archives: its working directory when it was stopped, with state in
memory (`memory`) and in RocksDB (`rocksdb`); when it was killed behind a manifest and before its
output was committed (`pending`); and a savepoint of the first in the place of its home
(`savepoint`). `expected.json.gz` has what the output comes to where nothing was stopped.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.core.api.storage_url import StorageUrl
from headrace.state.storage.remote.bucket import Bucket, open_bucket
from tests.recovery.stored.site import STORED, Stored, feed, final, has_read, lay_out, newest
from tests.support.s3.server import BUCKET, serving

HEADRACE = (sys.executable, "-m", "headrace.cli")
LONGEST_S = 30.0
SLOW_S = "0.003"
REMOTE = f"settings.checkpoint.dir=s3://{BUCKET}/stored"
LEFT_OUT = ("lock", "owner.json", "control.sock", "control.new", "state", "in", "__pycache__")
"""What names a process or its machine, and what can be made again."""


def main(folder: Path, names: Sequence[str]) -> None:
    """Write those, or all."""
    for stored in STORED:
        if names and stored.name not in names:
            continue
        place = folder / stored.name
        place.mkdir(parents=True, exist_ok=True)
        for backend in ("memory", "rocksdb"):
            with tempfile.TemporaryDirectory() as made:
                stopped(Path(made), stored, backend)
                archive(Path(made), place / f"{backend}.tar.xz")
                if backend == "memory":
                    saved(Path(made), stored)
                    archive(Path(made), place / "savepoint.tar.xz")
        if stored.name == "changes":
            with tempfile.TemporaryDirectory() as made:
                stopped_remotely(Path(made), stored)
                archive(Path(made), place / "bucket.tar.xz")
        with tempfile.TemporaryDirectory() as made:
            killed(Path(made), stored)
            archive(Path(made), place / "pending.tar.xz")
        with tempfile.TemporaryDirectory() as made:
            expected = undisturbed(Path(made), stored)
        text = json.dumps(expected, indent=0).encode()
        (place / "expected.json.gz").write_bytes(gzip.compress(text, mtime=0))
        print(stored.name, {path.name: path.stat().st_size for path in sorted(place.iterdir())})


def stopped(folder: Path, stored: Stored, backend: str) -> None:
    """Run it until it has read what comes before, and stop it.

    With RocksDB in a life for each phase, and with hardly any memory: so all of it is on disk.
    """
    lay_out(folder, stored)
    lives = [stored.before] if backend == "memory" else [(phase,) for phase in stored.before]
    read: Counter[str] = Counter()
    values = (f"settings.state.backend={backend}", "settings.state.memory=1KB")
    for phases in lives:
        with started(folder, stored, *values) as process:
            fed(folder, stored, phases, read)
            process.terminate()
            assert process.wait(LONGEST_S) == 0, said(folder)


def saved(folder: Path, stored: Stored) -> None:
    """A savepoint of it, in the place of its home."""
    export = (*HEADRACE, "state", "export", stored.name, "--to", "saved")
    subprocess.run(export, cwd=folder, check=True)
    shutil.rmtree(folder / ".headrace")


def killed(folder: Path, stored: Stored) -> None:
    """Stop it, and kill it in its second life: the manifest is there, its output is not seen."""
    *first, last = stored.before
    lay_out(folder, stored)
    with started(folder, stored) as process:
        fed(folder, stored, first, Counter())
        process.terminate()
        assert process.wait(LONGEST_S) == 0
    wanted: Counter[str] = Counter()
    for what in last:
        feed(folder, what, wanted)
    fault = {"HEADRACE_FAULT": "manifest.after:1"}
    with started(folder, stored, "settings.checkpoint.every=2s", environment=fault) as process:
        assert process.wait(LONGEST_S) == -signal.SIGKILL
    new = newest(folder, stored)
    assert new is not None
    assert all(new["counts"]["parts"][source][1] for source in wanted)
    assert any(sink["handles"] for sink in new["sinks"].values())


def undisturbed(folder: Path, stored: Stored) -> Any:
    """What comes out of a run that goes through it all and is drained."""
    lay_out(folder, stored)
    slow = {"HEADRACE_TEST_SLOW_S": "0"}
    with started(folder, stored, environment=slow) as process:
        if stored.sources:
            fed(folder, stored, (*stored.before, stored.after), Counter(), whole=True)
            subprocess.run([*HEADRACE, "stop", stored.name, "--drain"], cwd=folder, check=True)
        assert process.wait(LONGEST_S) == 0
    return final(folder, stored)


def stopped_remotely(folder: Path, stored: Stored) -> None:
    """Stop it with its checkpoints in a bucket; what that has is in the folder `open_bucket`.

    Who owns it is left out, which names a machine.
    """
    lay_out(folder, stored)
    with serving() as server:
        variables = server.environment()
        os.environ.update(variables)
        objects = open_bucket(StorageUrl("s3", BUCKET, "stored").child(stored.name))
        with started(folder, stored, REMOTE, environment=variables) as process:
            wanted: Counter[str] = Counter()
            for phase in stored.before:
                for what in phase:
                    feed(folder, what, wanted)
                while not has_read(newest_there(objects), wanted):
                    time.sleep(0.1)
                time.sleep(0.5)
            process.terminate()
            assert process.wait(LONGEST_S) == 0, said(folder)
        for name in objects.list_objects():
            found, path = objects.read(name), folder / "bucket" / name
            assert found is not None
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(found.data)


def newest_there(objects: Bucket) -> Any:
    """The newest manifest in a bucket."""
    names = [name for name in objects.list_objects() if "/manifests/" in name]
    if not names:
        return None
    found = objects.read(max(names, key=lambda name: int(Path(name).stem)))
    return json.loads(found.data) if found else None


def started(
    folder: Path, stored: Stored, *values: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """A run of it that waits for more files."""
    words = [word for value in (*stored.waits, *values) for word in ("--set", value)]
    variables = {**os.environ, "HEADRACE_TEST_SLOW_S": SLOW_S, **(environment or {})}
    command = [*HEADRACE, "run", f"{stored.name}.yaml", "--log", "json", *words]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, env=variables, stderr=log, stdout=log)


def fed(
    folder: Path,
    stored: Stored,
    phases: Sequence[Sequence[str]],
    read: Counter[str],
    *,
    whole: bool = False,
) -> None:
    """Have it read one phase after the other; of what is slow some, unless it is to be whole.

    `read` are the rows of each source that have been fed.
    """
    for phase in phases:
        for what in phase:
            feed(folder, what, read)
        some = {name: 1 if name == "slow" and not whole else rows for name, rows in read.items()}
        until(folder, stored, some)
        time.sleep(0.5)


def until(folder: Path, stored: Stored, read: Mapping[str, int]) -> None:
    """Wait until a checkpoint has read that many rows of each source."""
    end = time.monotonic() + LONGEST_S
    while time.monotonic() < end:
        if has_read(newest(folder, stored), read):
            return
        time.sleep(0.02)
    raise AssertionError(said(folder))


def said(folder: Path) -> str:
    """What was said of a failure."""
    return (folder / "log").read_text().partition('"failure"')[2][:2000]


def archive(folder: Path, to: Path) -> None:
    """Put the job's files into an archive, without anything of this machine."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            if path.is_file() and not {*LEFT_OUT, "log"} & {*name.parts} and len(name.parts) > 1:
                info = tarfile.TarInfo(str(name))
                info.size = path.stat().st_size
                tar.addfile(info, io.BytesIO(path.read_bytes()))
    to.write_bytes(lzma.compress(made.getvalue(), preset=9))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
