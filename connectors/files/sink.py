"""The folder of a sink during a run: checks before it, left-over files, and commits.

`overwrite` never leaves the folder without output: old parts are removed once every subtask has
named its first new ones. A run killed in between leaves both; the same commits, repeated after a
restart, remove the old parts, which are all parts of other jobs. So a commit may be repeated from
any point, and the old output is untouched until the first commit.

A job that resumes from another job, and a job that has appended, never replace anything: the parts
next to theirs are the beginning of their own output, or were to stay.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Literal

from headrace.connectors.files.compression import SUFFIXES
from headrace.connectors.files.disk import (
    append_bytes,
    check_parts_exist,
    make_folder,
    name_part,
    remove_file,
    remove_with_folders,
    sync_folders,
)
from headrace.connectors.files.errors import translate_errors
from headrace.connectors.files.names import (
    HIDDEN_PREFIX,
    format_hidden_path,
    is_hidden,
    list_output,
    parse_job_part,
)
from headrace.connectors.files.options import Compression, FilesSink
from headrace.connectors.files.output_parts import BodyFactory, TextBody, make_folder_division
from headrace.connectors.files.writer import FilesOutput, FilesWriter
from headrace.connectors.formats.factories import build_encoder, build_parquet_encoder
from headrace.core.api.coordinator_link import CoordinatorLink
from headrace.core.api.failures import ConnectorError
from headrace.core.api.run_context import RunContext
from headrace.core.api.sinks import SinkWriter
from headrace.core.api.splits import Handle
from headrace.core.api.state import Document
from headrace.core.plan import nodes
from headrace.core.types.data_types import Schema
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(slots=True)
class FolderSink:
    """A `BlockingSink` over a folder."""

    name: str
    path: str
    """The folder as written in the pipeline."""
    folder: str
    job: str
    mode: Literal["error", "append", "overwrite"]
    writer_count: int
    is_resumed: bool = False
    """Whether the job resumes from another job."""
    _awaited_commits: int = 1
    """The number of commits after which each subtask has named its first new parts.

    Commits before `check` are repeated: all of a checkpoint.
    """
    _commits: int = 0
    _is_clean: bool = False

    def check(self) -> None:
        """Raise ConnectorError if the folder cannot be used: not writable, or with other output.

        Hidden files that a crashed run of this job left are removed; so a restart commits the
        handles of its manifest before this check.
        """
        folder = self.folder
        self._awaited_commits = self.writer_count
        self._refuse_file()
        with translate_errors(f"write into {self.path}"):
            make_folder(folder)
            self._refuse_foreign_output()
            self._remove_hidden_parts()
            probe = os.path.join(folder, f"{HIDDEN_PREFIX}{self.job}")
            remove_file(probe)
            append_bytes(probe, (), new=True)
            remove_file(probe)

    def _remove_hidden_parts(self, subtasks: Collection[int] | None = None) -> None:
        """Remove the job's hidden parts, or those of these subtasks."""
        for name in list(list_output(self.folder)):
            part = parse_job_part(name, self.job) if is_hidden(name) else None
            if part and (subtasks is None or part.subtask in subtasks):
                remove_file(os.path.join(self.folder, name))

    def end_lost_writers(self, subtasks: Collection[int]) -> None:
        """Remove the hidden parts of these subtasks. Raises ConnectorError."""
        with translate_errors(f"write into {self.path}"):
            self._remove_hidden_parts(subtasks)

    def _refuse_file(self) -> None:
        """Raise ConnectorError if the path or one of its parents is a file."""
        path, folder = self.path, self.folder
        while folder and not os.path.lexists(folder):
            path, folder = os.path.dirname(path), os.path.dirname(folder)
        if os.path.exists(folder) and not os.path.isdir(folder):
            hint = "the path of a files sink is the folder of its parts"
            raise ConnectorError(f"{path} is a file, wanted a folder", hint, exit_status=2)

    def _refuse_foreign_output(self) -> None:
        refuses = self.mode == "error" or (self.mode == "overwrite" and self.is_resumed)
        others = self._list_foreign_output() if refuses else []
        if others:
            more = f" and {len(others) - 1} more" if len(others) > 1 else ""
            who, hint = "", "mode: append writes next to it, mode: overwrite replaces it"
            if self.is_resumed:
                who = f"{self.name}: "
                append_hint = f"--set sinks.{self.name}.files.mode=append writes next to it"
                hint = f"a resumed job replaces nothing: {append_hint}; or name another folder"
            message = f"{who}{self.path} holds output of another run: {others[0]}{more}"
            raise ConnectorError(message, hint, exit_status=3)

    def _list_foreign_output(self) -> list[str]:
        """Return the output that other jobs have committed here."""
        job, folder = self.job, self.folder
        names = list_output(folder) if os.path.isdir(folder) else ()
        return sorted(
            name for name in names if not is_hidden(name) and not parse_job_part(name, job)
        )

    def describe_for_workers(self) -> Document:
        """Return a number above those of all parts that the job has in the folder."""
        names = list_output(self.folder) if os.path.isdir(self.folder) else ()
        parts = (parse_job_part(name, self.job) for name in names)
        return {"sequence": 1 + max((part.sequence for part in parts if part), default=-1)}

    def commit(self, handle: Handle) -> None:
        """Give the parts their final names, and then remove the output that they replace."""
        with translate_errors(f"write into {self.path}"):
            if not self._commits:
                # Another run may have started with this one, and finished before it.
                self._refuse_foreign_output()
            parts = _parse_parts(handle, self.folder)
            if handle.get("all"):
                check_parts_exist(parts)
            for part, size in parts.items():
                name_part(part, size)
            sync_folders(self.folder, parts)
            for part in parts:
                remove_file(format_hidden_path(part))
            self._commits += self.writer_count if handle.get("all") else 1
            self._is_clean = self._is_clean or bool(handle.get("beside"))
            if self.mode == "overwrite":
                self._remove_old()

    def _remove_old(self) -> None:
        """Remove output of other jobs, once, after each subtask has committed."""
        if self._commits < self._awaited_commits or self._is_clean:
            return
        for name in self._list_foreign_output():
            remove_with_folders(self.folder, name)
        self._is_clean = True

    def abort(self, handle: Handle) -> None:
        """Remove the hidden files."""
        for path in _parse_parts(handle):
            with translate_errors(f"remove {path}"):
                remove_with_folders(self.folder, format_hidden_path(path))


def _parse_parts(handle: Handle, folder: str = "") -> dict[str, int]:
    """Return the size of each prepared part by its path."""
    parts = handle["parts"]
    assert isinstance(parts, list)
    return {os.path.join(folder, part["path"]): int(part["size"]) for part in parts}


@dataclass(frozen=True, slots=True)
class FolderWriters:
    """The `WriterFactory` of files."""

    output: FilesOutput
    sequence: int
    """A number above those of all parts that the job had in the folder at its start."""
    appends: bool

    def create_writer(self, subtask: int, states: Sequence[Document] = ()) -> SinkWriter:
        """Return a writer whose parts are numbered above all that the job ever had here."""
        before = max((int(str(each["sequence"])) for each in states), default=0)
        appends = self.appends or any(self._is_appended_or_foreign(each) for each in states)
        return FilesWriter(self.output, subtask, max(self.sequence, before), appends=appends)

    def _is_appended_or_foreign(self, state: Document) -> bool:
        """Whether a stored writer state appended to other output, or belongs to another job."""
        return bool(state.get("beside")) or state.get("job", self.output.job) != self.output.job

    async def close(self) -> None:
        """Do nothing: no resource is open."""


def build_sink(sink: nodes.Sink, run_context: RunContext) -> FolderSink:
    """Build the coordinator's half of the sink that the plan describes."""
    options = sink.options
    assert isinstance(options, FilesSink)
    return FolderSink(
        str(sink.name),
        str(options.path),
        str(run_context.folder / options.path),
        run_context.job_id[:8],
        options.mode,
        sink.parallelism,
        run_context.is_resumed,
    )


def build_writers(
    sink: nodes.Sink, schema: Schema, run_context: RunContext, link: CoordinatorLink
) -> FolderWriters:
    """Build the worker's half of the sink that the plan describes."""
    options = sink.options
    assert isinstance(options, FilesSink)
    folders = [str(name) for name in options.partition_by or ()]
    body_schema = Schema(tuple(field for field in schema if field.name not in folders))
    bodies, suffix = _choose_body(sink, options.compression, body_schema)
    output = FilesOutput(
        folder=str(run_context.folder / options.path),
        job=run_context.job_id[:8],
        columns=schema.names,
        divide_rows=make_folder_division(schema, folders),
        start_body=bodies,
        suffix=suffix,
        roll=options.roll,
        kernel_executor=run_context.kernel_executor,
        row_cost=50 if folders else 1,
        replaces_output=options.mode == "overwrite",
    )
    sequence = int(str(link.description["sequence"]))
    return FolderWriters(output, sequence, options.mode == "append")


def _choose_body(
    sink: nodes.Sink, compression: Compression, schema: Schema
) -> tuple[BodyFactory, str]:
    """Return the function that starts a file's content, and the suffix of its name."""
    if sink.format and sink.format.name == "parquet":
        parquet = build_parquet_encoder(schema)
        return parquet.start_file, parquet.suffix
    text = build_encoder(sink, schema)
    return lambda: TextBody(text, compression), text.suffix + SUFFIXES[compression]
