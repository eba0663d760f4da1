"""The disk of the operating system, with a hook before each operation that may make it fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from headrace.cli.pipeline_tests.simulated_job import ignore_operation
from headrace.state.storage.local_disk import LocalDisk


class FaultyDisk(LocalDisk):
    """A real disk whose `before_operation` may raise OSError, like that of `MemoryDisk`."""

    def __init__(self) -> None:
        self.before_operation: Callable[[str, str], None] = ignore_operation

    def make_folder(self, path: str) -> None:
        self.before_operation("make_folder", path)
        super().make_folder(path)

    def read(self, path: str) -> bytes:
        self.before_operation("read", path)
        return super().read(path)

    def read_chunks(self, path: str) -> Iterator[memoryview]:
        self.before_operation("read", path)
        return super().read_chunks(path)

    def write(self, path: str, pieces: Iterable[bytes | memoryview]) -> None:
        self.before_operation("create", path)
        super().write(path, self._checked(path, pieces))

    def _checked(
        self, path: str, pieces: Iterable[bytes | memoryview]
    ) -> Iterator[bytes | memoryview]:
        for piece in pieces:
            self.before_operation("write", path)
            yield piece

    def sync(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.before_operation("sync", path)
        super().sync(paths)

    def sync_folder(self, path: str) -> None:
        self.before_operation("sync_folder", path)
        super().sync_folder(path)

    def rename(self, path: str, to: str) -> None:
        self.before_operation("rename", path)
        super().rename(path, to)

    def link(self, path: str, to: str) -> None:
        self.before_operation("link", path)
        super().link(path, to)

    def remove(self, path: str) -> None:
        self.before_operation("remove", path)
        super().remove(path)

    def remove_folder(self, path: str) -> None:
        self.before_operation("remove_folder", path)
        super().remove_folder(path)
