"""Folders that a sink of files cannot have, and disks that have no room for them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from headrace.core.api.failures import ConnectorError
from tests.connectors.files.test_sink import MINE, names
from tests.support.file_pipelines import run, sink_of


@pytest.mark.parametrize("path", ["out", "./out/"])
def test_two_sinks_cannot_have_one_folder(tmp_path: Path, path: str) -> None:
    text = f"""
sources:
  s: {{memory: {{data: in}}, schema: {{id: bigint}}}}
sinks:
  o: {{from: s, files: {{path: out}}}}
  p: {{from: s, files: {{path: {path}}}}}
"""
    with pytest.raises(AssertionError, match='the folder out is taken by the sink "o"'):
        run(tmp_path, text)


@pytest.mark.parametrize(
    ("path", "said", "status"),
    [
        ("file", "file is a file, wanted a folder", 2),
        ("file/out/deep", "file is a file, wanted a folder", 2),
        ("x" * 300, f"cannot write into {'x' * 300}: file name too long", 1),
    ],
)
def test_what_cannot_be_a_folder(tmp_path: Path, path: str, said: str, status: int) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConnectorError) as raised:
        sink_of(tmp_path, f"{{from: s, files: {{path: {path}}}}}").check()
    assert (raised.value.message, raised.value.exit_status) == (said, status)


AS_NOBODY = """
import os, sys
from pathlib import Path
from headrace.core.api.failures import ConnectorError
from tests.support.file_pipelines import sink_of

sink = sink_of(Path(sys.argv[1]), "{from: s, files: {path: %s}}" % sys.argv[2])
if os.getuid() == 0:
    os.setuid(65534)
try:
    sink.check()
except ConnectorError as error:
    print(error.message, error.exit_status)
"""


@pytest.mark.parametrize("path", ["closed", "closed/out", "unreadable"])
def test_a_folder_that_may_not_be_written(path: str) -> None:
    # Not under pytest's own folder, which other users may not enter.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "p.yaml").touch()
        for made, mode in (("closed", 0o555), ("unreadable", 0o333)):
            (folder / made).mkdir()
            (folder / made).chmod(mode)
        arguments = [sys.executable, "-c", AS_NOBODY, name, path]
        ran = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == f"cannot write into {path}: permission denied 1"


FULL = """
import resource, sys
from pathlib import Path
import polars as pl
from headrace.connectors.memory import InMemoryData
from tests.support.file_pipelines import run

if "limit" in sys.argv:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
rows = pl.DataFrame({"id": range(1000), "name": ["x" * 50] * 1000})
memory = InMemoryData(inputs={"in": {"a": [rows] * 100}})
text = '''
sources:
  s: {memory: {data: in}, schema: {id: bigint, name: string}}
sinks:
  o: {from: s, files: {path: full, roll: {rows: %s}}}
'''
failure = run(Path(sys.argv[1]), text % sys.argv[2], memory=memory).failure
print(failure and failure.message)
"""


@pytest.mark.parametrize("rows", ["10M", "1000"])
def test_a_file_that_gets_too_large_leaves_nothing(tmp_path: Path, rows: str) -> None:
    arguments = [sys.executable, "-c", FULL, str(tmp_path), rows, "limit"]
    ran = subprocess.run(arguments, capture_output=True, text=True, check=True)
    if rows == "10M":
        assert ran.stdout.endswith(f"{MINE}-0-0.jsonl.tmp: file too large\n")
        assert names(tmp_path / "full") == []
    else:
        assert ran.stdout == "None\n"
        assert len(names(tmp_path / "full")) == 100


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a small disk")
@pytest.mark.parametrize("rows", ["10M", "1000"])
def test_a_full_disk_leaves_nothing(tmp_path: Path, rows: str) -> None:
    disk = tmp_path / "full"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        arguments = [sys.executable, "-c", FULL, str(tmp_path), rows]
        ran = subprocess.run(arguments, capture_output=True, text=True, check=True)
        assert ran.stdout.startswith(f"cannot write {disk}/.inprogress-")
        assert ran.stdout.endswith("no space left on device\n")
        assert names(disk) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)
