"""The dashboards of configs/dashboards in processes that are killed, stopped and rescaled.

The logs of the tables arrive in files while the job runs. A checkpoint says how much of each file
was read, so the rows of the tables at that checkpoint are known. If its output is committed, the
changes that were written, applied, are to be the result of the queries over these rows.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from random import Random
from shutil import copy
from typing import Any, TypeAlias

from headrace.cli.pipeline_file import check_pipeline
from headrace.core.plan import nodes
from headrace.core.plan.nodes import Plan
from headrace.state.storage.home import Home
from headrace.state.storage.local_disk import LocalDisk
from tests.support.cli.command_process import run_headrace, start_headrace
from tests.support.cli.processes import limited
from tests.support.paths import ROOT
from tests.support.recovery.shop_tables import KEYS, SEQUENCE, Record, ShopLogs, write_lines
from tests.support.runtime.checkpointed_output import AppliedChanges
from tests.support.runtime.committed_output import Values

CONFIG = ROOT / "configs" / "dashboards" / "dashboards.yaml"
NAME = "dashboards"
LOOK_S = 0.03
LONGEST_S = 400.0

Tables: TypeAlias = Mapping[str, Sequence[Mapping[str, Any]]]
"""The records of each table that were read."""
Compute: TypeAlias = Callable[[Tables], Mapping[str, Counter[Values]]]
"""Returns the rows of each query over the tables after these records."""


@dataclass(slots=True)
class KilledDashboards:
    """The job, its logs, and what has become of it."""

    folder: Path
    random: Random
    changes: int
    compute: Compute
    lives: list[str] = field(default_factory=list)
    """How each has ended, at which parallelism."""
    compared: int = 0
    """The checkpoints whose rows were compared."""
    wrong: list[str] = field(default_factory=list)
    _waiting: list[tuple[Path, Sequence[Record]]] = field(default_factory=list)
    """The files that have not come yet."""
    _files: dict[str, Sequence[Record]] = field(default_factory=dict)
    """The records of each file."""
    _savepoint: str = ""

    def __post_init__(self) -> None:
        for query in CONFIG.parent.glob("*.sql"):
            copy(query, self.folder)
        (self.folder / "in").mkdir()
        text = CONFIG.read_text("utf-8").replace("mode: overwrite", "changelog: full")
        text = text.replace(f"../../build/{NAME}", "out")
        (self.folder / "whole.yaml").write_text(self._read_from(text, ""))
        (self.folder / "watched.yaml").write_text(self._read_from(text, ", watch: 50ms"))
        logs = ShopLogs(self.random)
        logs.draw(self.changes)
        for table, records in logs.records.items():
            self._cut(table, records)
        self.random.shuffle(self._waiting)

    @staticmethod
    def _read_from(text: str, keys: str) -> str:
        for table in KEYS:
            path = f"path: data/{table}.jsonl"
            assert path in text, path
            text = text.replace(path, f'path: "in/{table}-*.jsonl"{keys}')
        return text

    def _cut(self, table: str, records: Sequence[Record]) -> None:
        """Cut a log into files."""
        at = 0
        while at < len(records):
            size = self.random.randint(1 + len(records) // 4, 1 + len(records) // 2)
            piece = records[at : at + size]
            path = self.folder / "in" / f"{table}-{at:06}.jsonl"
            self._files[f"in/{path.name}"] = piece
            self._waiting.append((path, piece))
            at += len(piece)

    @property
    def plan(self) -> Plan:
        """The plan of the job."""
        plan = check_pipeline(str(self.folder / "whole.yaml"), ()).plan
        assert plan is not None
        return plan

    def live(self, how: str, parallelism: int) -> None:
        """Run the job, let files arrive, and end it somehow; compare what it leaves behind."""
        process, random = self._start("watched.yaml", parallelism), self.random
        before, longest_s = {*self._list_checkpoints()}, LONGEST_S
        wanted, least = random.choice((1, 2, 4)), len(self._waiting) * 2 // 3
        if how == "kill" and random.random() < 0.4:
            longest_s = random.uniform(0, 2)
        until = time.monotonic() + longest_s
        while process.poll() is None and time.monotonic() < until:
            if len({*self._list_checkpoints()} - before) >= wanted:
                time.sleep(random.choice((0, 0.005, 0.05)))
                break
            if random.random() < 0.3 and len(self._waiting) > least:
                self._let_arrive(random.choice((1, 1, 3)))
            time.sleep(LOOK_S)
        self._end(how, process)
        self.lives.append(f"{how} at {parallelism}")
        self._compare_newest()

    def _end(self, how: str, process: subprocess.Popen[str]) -> None:
        match how:
            case "kill":
                process.kill()
            case "stop":
                process.terminate()
            case "savepoint":
                ran = run_headrace("stop", NAME, "--savepoint", cwd=self.folder)
                self._savepoint = ran.stdout.strip()
                if ran.returncode:  # it was too early: it does not listen yet
                    process.terminate()
        _, said = process.communicate()
        wanted = (-9,) if how == "kill" else (0, -15)
        assert process.returncode in wanted, (process.returncode, said)

    def finish(self, parallelism: int) -> None:
        """Let all files arrive, and stop the job when it has read them; compare the final rows."""
        self._let_arrive(len(self._waiting))
        process = self._start("watched.yaml", parallelism)
        while process.poll() is None and self._read_newest() != self._whole:
            time.sleep(LOOK_S)
        self._end("stop", process)
        assert self._read_newest() == self._whole
        self._compare_newest()

    @property
    def _whole(self) -> Tables:
        """All records of all tables, by their numbers."""
        return _sort(each for each in self._files.items())

    def _start(self, pipeline: str, parallelism: int) -> subprocess.Popen[str]:
        options = ["--parallelism", str(parallelism), "--set", "settings.checkpoint.every=250ms"]
        if self._savepoint:
            options += ["--from-savepoint", self._savepoint]
            self._savepoint = ""
        process = start_headrace(
            *("run", pipeline, "--quiet", *options),
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        return limited(process, LONGEST_S)

    def _let_arrive(self, count: int) -> None:
        for path, records in self._waiting[:count]:
            hidden = path.with_name(f".{path.name}")
            hidden.write_text(write_lines(records))
            hidden.rename(path)
        del self._waiting[:count]

    def _list_checkpoints(self) -> list[int]:
        return sorted(int(p.stem) for p in self._manifests.glob("*.json") if p.stem.isdigit())

    def _compare_newest(self) -> None:
        """Compare the rows at the newest checkpoint, if all its output is committed."""
        home = Home(LocalDisk(), str(self.folder / ".headrace"), NAME)
        numbers = self._list_checkpoints()
        if numbers and home.read_commit_record() == numbers[-1]:
            self._compare(f"checkpoint {numbers[-1]}", self._read_newest())

    def _read_newest(self) -> Tables:
        """Return the records that the newest checkpoint has read."""
        numbers, manifest = self._list_checkpoints(), {"sources": dict[str, Any]()}
        if numbers:
            path = self._manifests / f"{numbers[-1]}.json"
            manifest = json.loads(path.read_text())
        splits = [e for name in KEYS for e in manifest["sources"].get(name, ())]
        read = {each["split"]: each["position"] or 0 for each in splits}
        return _sort(
            (file, self._files[file][: (self.folder / file).read_bytes()[:end].count(b"\n")])
            for file, end in read.items()
        )

    @property
    def _manifests(self) -> Path:
        return self.folder / ".headrace" / NAME / "checkpoints" / "manifests"

    def _compare(self, what: str, records: Tables) -> None:
        wanted = self.compute(records)
        for query, found in self.read_output(self.folder / "out"):
            if found != wanted[query]:
                more, missing = dict(found - wanted[query]), dict(wanted[query] - found)
                self.wrong.append(
                    f"{what} after {self.lives}: {query}: not {more} but {missing}"[:3000]
                )
        self.compared += 1

    def read_output(self, folder: Path) -> Iterator[tuple[str, Counter[Values]]]:
        """Yield each query, and its rows as its sink has written them below a folder."""
        plan = self.plan
        for sink in (part for part in plan if isinstance(part, nodes.Sink)):
            stream = plan.streams[sink.input.removesuffix("@changes").removesuffix("@upsert")]
            names = stream.schema.names
            assert not isinstance(stream.kind, nodes.Append)
            applied = AppliedChanges(names, stream.kind.key)
            lines = (
                json.loads(line, parse_float=Decimal)
                for part in sorted((folder / sink.name.removesuffix("_out")).glob("part-*"))
                for line in part.read_text().splitlines()
            )
            applied.apply_rows(lines)
            yield stream.name, applied.table


def _sort(files: Iterable[tuple[str, Sequence[Record]]]) -> Tables:
    """Return the records of files by table, in the order of their numbers."""
    found: dict[str, list[Record]] = {table: [] for table in KEYS}
    for file, records in files:
        found[Path(file).name.partition("-")[0]] += records
    return {table: sorted(rows, key=lambda row: row[SEQUENCE]) for table, rows in found.items()}
