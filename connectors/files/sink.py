"""The folder of a sink within a run: what may go there, what is left over, what is committed.

`overwrite` replaces output without a moment in which there is none: old parts go once, when every
subtask has named its first new ones. Killed in between, a run leaves both, and the same commits,
repeated after a restart, remove the old ones: they are whatever is not of this job. So a commit may
be repeated from any point, and until the first one the old output is untouched.

A job that goes on where another one was left, and one that has appended, replace nothing for as
long as they live: what stands beside their parts is the beginning of theirs, or was to stay.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from headrace.connectors.files.body import Bodies, Text
from headrace.connectors.files.compression import SUFFIXES
from headrace.connectors.files.disk import (
    append,
    are_there,
    discard,
    make_folder,
    name_part,
    remove,
    sync_folders,
)
from headrace.connectors.files.failing import telling
from headrace.connectors.files.folders import spreading
from headrace.connectors.files.names import HIDDEN, hidden, is_hidden, of_job, output_in
from headrace.connectors.files.options import Compression, FilesSink
from headrace.connectors.files.writer import FilesWriter, Output
from headrace.connectors.formats import encoder, parquet_encoder
from headrace.core.contracts import ConnectorError, Surroundings, Writer
from headrace.core.messages import Handle
from headrace.core.plan import nodes
from headrace.core.state import Document
from headrace.core.types import Schema


@dataclass(slots=True)
class FilesOut:
    """`BlockingSink` over a folder."""

    output: Output
    name: str
    path: str
    """The folder as the user wrote it."""
    mode: Literal["error", "append", "overwrite"]
    continues: bool = False
    """Whether the job is to go on where another one was left."""
    _sequence: int | None = None
    _writers: int = 0
    _commits: int = 0
    _is_clean: bool = False

    def check(self) -> None:
        """The folder takes files, and holds none that are in the way.

        What a dead run of this job left hidden is removed, so a restart commits what its manifest
        names before it checks.
        """
        folder = self.output.folder
        self._refuse_a_file()
        with telling(f"write into {self.path}"):
            make_folder(folder)
            self._refuse_others()
            for name in list(output_in(folder)):
                if is_hidden(name) and of_job(name, self.output.job):
                    remove(os.path.join(folder, name))
            probe = os.path.join(folder, f"{HIDDEN}{self.output.job}")
            remove(probe)
            append(probe, (), new=True)
            remove(probe)

    def _refuse_a_file(self) -> None:
        """Neither the path nor one above it is a file."""
        path, folder = self.path, self.output.folder
        while folder and not os.path.lexists(folder):
            path, folder = os.path.dirname(path), os.path.dirname(folder)
        if os.path.exists(folder) and not os.path.isdir(folder):
            hint = "the path of a files sink is the folder of its parts"
            raise ConnectorError(f"{path} is a file, wanted a folder", hint, exit_status=2)

    def _refuse_others(self) -> None:
        refuses = self.mode == "error" or (self.mode == "overwrite" and self.continues)
        others = self._others() if refuses else []
        if others:
            more = f" and {len(others) - 1} more" if len(others) > 1 else ""
            who, hint = "", "mode: append writes beside it, mode: overwrite in its place"
            if self.continues:
                who = f"{self.name}: "
                beside = f"--set sinks.{self.name}.files.mode=append writes beside it"
                hint = f"the job goes on, and replaces nothing: {beside}; or name another folder"
            message = f"{who}{self.path} holds output of another run: {others[0]}{more}"
            raise ConnectorError(message, hint, exit_status=3)

    def _others(self) -> list[str]:
        """The output that other jobs have committed here."""
        job, folder = self.output.job, self.output.folder
        names = output_in(folder) if os.path.isdir(folder) else ()
        return sorted(name for name in names if not is_hidden(name) and not of_job(name, job))

    def writer(self, subtask: int, begun: Sequence[Document] = ()) -> Writer:
        """Writes parts numbered above all that the job has here, or ever had."""
        if self._sequence is None:
            folder = self.output.folder
            names = output_in(folder) if os.path.isdir(folder) else ()
            parts = (of_job(name, self.output.job) for name in names)
            self._sequence = 1 + max((part.sequence for part in parts if part), default=-1)
        self._writers += 1
        before = max((int(str(each["sequence"])) for each in begun), default=0)
        beside = self.mode == "append" or any(self._is_beside(each) for each in begun)
        self._is_clean = self._is_clean or beside
        return FilesWriter(self.output, subtask, max(self._sequence, before), beside=beside)

    def _is_beside(self, begun: Document) -> bool:
        """Whether a writer stood beside other output, or was another job's."""
        return bool(begun.get("beside")) or begun.get("job", self.output.job) != self.output.job

    def commit(self, handle: Handle) -> None:
        """Name the parts; then old output goes, if it is to be replaced."""
        with telling(f"write into {self.path}"):
            if not self._commits:
                # Another run may have begun as this one did, and have ended before it.
                self._refuse_others()
            parts = _parts(handle, self.output.folder)
            if handle.get("all"):
                are_there(parts)
            for part, size in parts.items():
                name_part(part, size)
            sync_folders(self.output.folder, parts)
            for part in parts:
                remove(hidden(part))
            self._commits += 1
            self._is_clean = self._is_clean or bool(handle.get("beside"))
            if self.mode == "overwrite":
                self._remove_old()

    def _remove_old(self) -> None:
        """Remove what others have committed, once, when each subtask has committed something."""
        if self._commits < self._writers or self._is_clean:
            return
        for name in self._others():
            discard(self.output.folder, name)
        self._is_clean = True

    def abort(self, handle: Handle) -> None:
        """Remove the hidden files."""
        for path in _parts(handle):
            with telling(f"remove {path}"):
                discard(self.output.folder, hidden(path))


def _parts(handle: Handle, folder: str = "") -> dict[str, int]:
    """The size of each part that was prepared, by its path."""
    parts = handle["parts"]
    assert isinstance(parts, list)
    return {os.path.join(folder, part["path"]): int(part["size"]) for part in parts}


def open_sink(sink: nodes.Sink, schema: Schema, surroundings: Surroundings) -> FilesOut:
    """The sink that the plan describes."""
    options = sink.options
    assert isinstance(options, FilesSink)
    folders = [str(name) for name in options.partition_by or ()]
    kept = Schema(tuple(field for field in schema if field.name not in folders))
    bodies, suffix = _bodies(sink, options.compression, kept)
    output = Output(
        folder=str(surroundings.folder / options.path),
        job=surroundings.job[:8],
        columns=schema.names,
        spread=spreading(schema, folders),
        bodies=bodies,
        suffix=suffix,
        roll=options.roll,
        bench=surroundings.bench,
        weight=50 if folders else 1,
        replaces=options.mode == "overwrite",
    )
    name, path = str(sink.name), str(options.path)
    return FilesOut(output, name, path, options.mode, surroundings.continues)


def _bodies(sink: nodes.Sink, compression: Compression, schema: Schema) -> tuple[Bodies, str]:
    """What begins a file, and how its name ends."""
    if sink.format and sink.format.name == "parquet":
        parquet = parquet_encoder(schema)
        return parquet.file, parquet.suffix
    text = encoder(sink, schema)
    return lambda: Text(text, compression), text.suffix + SUFFIXES[compression]
