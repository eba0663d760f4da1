"""Full file systems, real ones where they may be mounted: which one, and what is used up."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.connectors.files.disk import append_bytes
from headrace.connectors.files.errors import translate_errors
from headrace.core.api.failures import ConnectorError
from headrace.core.api.snapshots import StoreError
from headrace.core.errors.full_disks import describe_full_disk
from headrace.state.storage.disk_errors import translate_os_errors
from headrace.state.storage.local_disk import LocalDisk


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A small disk, where a disk can be had."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no disk may be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_without_space_is_named(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=64k") as disk:
        (disk / "below").mkdir()
        path, data = str(disk / "below" / "file"), b"x" * (1 << 20)
        said = f"the file system at {disk} has no free space: all 0.1 MiB are used"
        with pytest.raises(StoreError) as stored, translate_os_errors("write"):
            LocalDisk().write(path, (data,))
        assert stored.value.message == "cannot write: no space left on device"
        assert stored.value.hint.startswith(f"{said}; ")
        LocalDisk().remove(path)
        with pytest.raises(ConnectorError) as written, translate_errors("write"):
            append_bytes(path, (data,), new=True)
        assert written.value.hint.startswith(f"{said}; ")
        assert not written.value.is_final


def test_a_disk_without_inodes_is_named(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=1m,nr_inodes=4") as disk:
        said = f"the file system at {disk} has no free inodes: 4 files are the most; "
        with pytest.raises(StoreError) as stored, translate_os_errors("write"):
            for name in "abcd":
                LocalDisk().write(str(disk / name), (b"x",))
        assert stored.value.hint.startswith(said)
        with pytest.raises(ConnectorError) as written, translate_errors("write"):
            append_bytes(str(disk / "other"), (b"x",), new=True)
        assert written.value.hint.startswith(said)


def test_a_disk_with_room_is_not_called_full(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "no space left on device", str(tmp_path / "gone" / "file"))
    assert describe_full_disk(full) == ""
    assert describe_full_disk(OSError(errno.ENOSPC, "no space left on device")) == ""
