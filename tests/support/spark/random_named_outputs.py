"""Steps with all kinds of named outputs, held against a stream and the interpreter of rows.

`python -m tests.support.spark.random_named_outputs PIPELINES [FIRST]` tries this number of
pipelines, each of STEPS random steps, drawn from their numbers.

All outputs of all steps are united: each row becomes the name of its stream, and the row as text.
So a pipeline has a single sink, and takes a single job of Spark, because it is jobs that take long.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from headrace.cli.main import run_command_line
from headrace.cli.pipeline_file import CheckedPipeline, check_pipeline
from headrace.core.plan import nodes
from headrace.core.plan.layout import get_lookup
from headrace.core.plan.nodes import Plan
from headrace.core.plan.output_streams import list_declared_streams
from headrace.core.spark.arrow_functions import decode_failure
from headrace.core.testing.reference.interpreter import interpret
from tests.support.paths import USER_CODE
from tests.support.reference import random_pipelines
from tests.support.spark.batches import batch
from tests.support.spark.quick import hurried
from tests.support.spark.session import started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = 24
CODE = USER_CODE / "named_outputs.py"
BASE = "{k: bigint, s: string, v: bigint, x: double, at: timestamp}"
TABLE = [{"id": id, "name": name} for id, name in [(1, "x"), (2, "y"), (2, "z"), (9, None)]]
"""The table of lookups; looking 2 up fails."""
WINDOWS = ("tumble: 5s", "slide: 6s, every: 3s", "session: 1s", "cumulate: 6s, every: 2s")
MATCHES = ("within: [-2s, 1s]", "as_of: true", "window: {tumble: 5s}", "window: {session: 1s}")
ROUTES = ("{big: v > 1, some: s is not null}", "{big: v > 1}", "{big: exp(v) > 3}")
OF_COUNTS = ("{big: n > 2}", "{big: n > 3, some: k = 1}")
RETURNS = (
    "returns: {k: bigint, n: bigint, v: bigint}, "
    "outputs: {odd: {v: bigint, s: string}, quiet: {n: bigint}}"
)
Steps = dict[str, str]
"""Steps by name, as they are written."""


@dataclass(slots=True)
class StepWriter:
    """Writes a random step with named outputs."""

    name: str
    luck: random.Random
    inputs: Sequence[str]
    """Streams with the columns of the sources."""
    clauses: list[str] = field(default_factory=list)

    def write(self) -> str:
        """Return the step, in flow style."""
        self.luck.choice(
            [
                *(self._stateless, self._stateless, self._missing, self._windowed, self._dedup),
                *(self._join, self._broadcast, self._process, self._connect, self._ruled),
            ]
        )()
        return f"{{{', '.join(self.clauses)}}}"

    def list_inputs(self) -> Iterator[str]:
        """Yield the outputs that have the columns of the sources."""
        text = " ".join(self.clauses)
        if f"{self.name}_missed" in text:
            yield f"{self.name}_missed"
        if "dedup" in text and "route" in text and "select" not in text and "drop" not in text:
            yield f"{self.name}.else"

    def _some(self, *clauses: str, chance: float = 0.5) -> None:
        """Add one of the clauses, perhaps."""
        if self.luck.random() < chance:
            self.clauses.append(self.luck.choice(clauses))

    def _from(self) -> None:
        self.clauses.append(f"from: {self.luck.choice(self.inputs)}")
        self._some("where: v > -3 or v is null", "where: k is not null", chance=0.3)

    def _on_error(self) -> str:
        return self.luck.choice([f"on_error: {{to: {self.name}_bad}}"] * 3 + ["on_error: skip"])

    def _late(self) -> str:
        return self.luck.choice([f", late_to: {self.name}_late", ""])

    def _late_sides(self) -> str:
        sides = [f"{side}: {self.name}_late_{side}" for side in ("left", "right")]
        some = self.luck.choice([sides, sides[:1], sides[1:], []])
        return f", late_to: {{{', '.join(some)}}}" if some else ""

    def _lookup(self, on_miss: str) -> str:
        table = "sql: {url: 'sqlite:///t.db', table: t}"
        options = f"on: {{id: k}}, add: {{name: string}}, retries: 0, on_miss: {on_miss}"
        return f"lookup: {{{table}, {options}}}"

    def _stateless(self) -> None:
        """Rows, one by one."""
        self._from()
        count = len(self.clauses)
        self._some("explode: {one: all}", "explode: {one: all, outer: true}", chance=0.3)
        if len(self.clauses) > count:
            self.clauses[0] = "from: wide"
        count = len(self.clauses)
        returns = f"mode: row, returns: {BASE}"
        self._some(f"map: {{python: '{CODE}:change', {returns}}}", chance=0.6)
        self._some("with: {v: v + 1}", "with: {y: upper(s)}", chance=0.4)
        self._some(self._lookup("null"), self._lookup("drop"), chance=0.6)
        if any(clause.startswith(("map", "lookup")) for clause in self.clauses[count:]):
            self.clauses.append(self._on_error())
        self._end()

    def _missing(self) -> None:
        """Rows without a match, besides others."""
        self._from()
        self.clauses += [self._lookup(f"{{to: {self.name}_missed}}"), self._on_error()]
        self._end()

    def _end(self) -> None:
        """The clauses after rows with k, s and v."""
        self._some("select: {k: k, s: s, v: v}", "drop: x", chance=0.3)
        self._some(*(f"route: {route}" for route in ROUTES), chance=0.7 if self.clauses[1:] else 1)

    def _windowed(self) -> None:
        self._from()
        window = f"window: {{{self.luck.choice(WINDOWS)}{self._late()}}}"
        self.clauses += [self.luck.choice(["key: k", "key: [k, s]"]), window]
        if self.luck.random() < 0.3:
            self.clauses.append("top: {n: 2, by: v desc}")
            self._end()
            return
        self.clauses.append("aggregate: {n: count(*), v: max(v), f: first(s)}")
        self._some("having: n > 1", chance=0.3)
        self._some(*(f"route: {route}" for route in OF_COUNTS), chance=0.8)

    def _dedup(self) -> None:
        self._from()
        key = self.luck.choice(["key: k", "key: [k, s]", "key: [k, v], ttl: 2s"])
        self.clauses.append(f"dedup: {{{key}, order: event_time{self._late()}}}")
        self._end()

    def _join(self) -> None:
        match = self.luck.choice(MATCHES)
        kinds = ("inner", "left") if "as_of" in match else ("inner", "left", "full")
        options = [f"on: rows.k = more.k, type: {self.luck.choice(kinds)}"]
        if not match.startswith("window"):
            options.append(match)
        self.clauses.append(f"join: {{left: rows, right: more, {options[0]}")
        self.clauses[-1] += "".join(f", {each}" for each in options[1:]) + self._late_sides() + "}"
        if match.startswith("window"):
            self.clauses.append(match)
        self.clauses.append("select: {k: rows.k, s: more.s, v: rows.v, w: more.v}")
        self._some(*(f"route: {route}" for route in ROUTES), chance=0.8)

    def _broadcast(self) -> None:
        kind = self.luck.choice(["inner", "left"])
        options = f"rules: more, on: 'rows.v < more.v', type: {kind}, keep: {{key: s}}"
        self.clauses += ["from: rows", f"broadcast: {{{options}{self._late()}}}"]
        self.clauses.append("select: {k: rows.k, s: more.s, v: rows.v, w: more.v}")
        self._some(*(f"route: {route}" for route in ROUTES), chance=0.8)

    def _process(self) -> None:
        self._from()
        self._run_class("Counted", self._late())

    def _connect(self) -> None:
        self.clauses.append(f"connect: {{left: rows, right: more{self._late_sides()}}}")
        self._run_class("Paired", "")

    def _ruled(self) -> None:
        self.clauses += ["from: rows", "broadcast: {rules: more}"]
        self._run_class("Ruled", self._late())

    def _run_class(self, name: str, late: str) -> None:
        process = f"process: {{python: '{CODE}:{name}', {RETURNS}{late}}}"
        self.clauses += ["key: k", process, self._on_error()]
        self._some("select: {n: n, v: v}", "drop: v", chance=0.3)


def write_known_steps() -> Steps:
    """Return the steps in which outputs were once confused, and others of their kinds."""
    lookup = "lookup: {sql: {url: 'sqlite:///t.db', table: t}, on: {id: k}, add: {name: string}"
    change = f"map: {{python: '{CODE}:change', mode: row, returns: {BASE}}}"
    route = "route: {big: v > 1, some: s is not null}"
    sides = "select: {k: rows.k, s: more.s, v: rows.v, w: more.v}"
    tumble, late = "window: {tumble: 5s, late_to: %s_late}", "late_to: %s_late"
    steps = (
        f"from: rows, {change}, on_error: {{to: %s_bad}}, {route}",
        f"from: rows, {change}, {lookup}, retries: 0}}, on_error: {{to: %s_bad}}",
        f"from: rows, {lookup}, on_miss: {{to: %s_missed}}, retries: 0}}, "
        f"on_error: {{to: %s_bad}}, {route}",
        f"from: rows, key: k, {tumble}, aggregate: {{n: count(*)}}, route: {{big: n > 2}}",
        f"from: rows, key: k, {tumble}, top: {{n: 2, by: v desc}}, {route}",
        f"from: rows, dedup: {{key: [k, s], order: event_time, {late}}}, {route}",
        f"join: {{left: rows, right: more, on: rows.k = more.k, as_of: true, "
        f"late_to: {{left: %s_left, right: %s_right}}}}, {sides}, {route}",
        f"from: rows, broadcast: {{rules: more, on: rows.v < more.v, {late}}}, {sides}, {route}",
        f"from: rows, key: k, process: {{python: '{CODE}:Counted', {RETURNS}, {late}}}, "
        "on_error: {to: %s_bad}",
        "from: s8.odd, dedup: {key: [v, s], order: event_time}",
    )
    return {f"s{at}": f"{{{step.replace('%s', f's{at}')}}}" for at, step in enumerate(steps)}


def write_steps(luck: random.Random, count: int, first: int = 0) -> Steps:
    """Return random steps, numbered from the first on."""
    inputs, steps = ["rows", "more"], Steps()
    for at in range(first, first + count):
        writer = StepWriter(f"s{at}", luck, inputs)
        steps[writer.name] = writer.write()
        inputs.extend(writer.list_inputs())
    return steps


def write_pipeline(steps: Steps, sinks: str) -> str:
    """Return the text of a pipeline."""
    source = f"format: parquet, schema: {BASE}, event_time: at, watermark: {{delay: 40s}}"
    rows = "".join(
        f"  {n}: {{files: {{path: {n}/0.parquet}}, {source}}}\n" for n in ("rows", "more")
    )
    wide = "  wide: {from: rows, with: {all: 'case when v > -2 then array(k, v) end'}}\n"
    if not any("from: wide" in step for step in steps.values()):
        wide = ""
    written = "".join(f"  {name}: {step}\n" for name, step in steps.items())
    return f"name: test\nsources:\n{rows}steps:\n{wide}{written}sinks:\n{sinks}"


def check_text(folder: Path, text: str) -> CheckedPipeline:
    """Check a pipeline, which is written to a file."""
    (folder / "p.yaml").write_text(text, "utf-8")
    return check_pipeline(str(folder / "p.yaml"), ())


def plan_text(folder: Path, text: str) -> Plan:
    """Return the plan of a pipeline."""
    checked = check_text(folder, text)
    errors = [problem for problem in checked.problems if problem.severity == "error"]
    assert checked.plan is not None, [*map(str, errors)]
    return checked.plan


def unite_outputs(folder: Path, steps: Steps, luck: random.Random) -> str:
    """Return the pipeline of these steps with one sink, which takes what all of them emit.

    Some outputs are read twice, or in the order of their rows; some branches are not read.
    """
    sinks = "  out: {from: s0, files: {path: out}}\n"
    declared = list_declared_streams(check_text(folder, write_pipeline(steps, sinks)).pipeline)
    names = [str(name) for part, name in declared if part.name in steps]
    sinks = "".join(
        f"  out_{at}: {{from: {name}, files: {{path: out/{at}}}}}\n"
        for at, name in enumerate(names)
    )
    plan = plan_text(folder, write_pipeline(steps, sinks))
    tags: Steps = {}
    dedups: Steps = {}
    for at, stream in enumerate(plan.streams[name] for name in names):
        is_branch = "." in stream.name and not stream.name.endswith(".else")
        if is_branch and luck.random() < 0.1:
            continue
        tags[f"tag_{at}"] = _tag(stream.name, stream.name, stream)
        if luck.random() < 0.2 and stream.has_event_time:
            key = ", ".join(name for name in stream.schema.names if name != "all")
            dedup = f"dedup: {{key: [{key}], order: event_time}}"
            dedups[f"again_{at}"] = f"{{from: {stream.name}, {dedup}}}"
            tags[f"tag_again_{at}"] = _tag(f"again_{at}", f"{stream.name} again", stream)
    united = {"united": f"{{from: [{', '.join(tags)}], where: name is not null}}"}
    sink = "  every: {from: united, files: {path: out}}\n"
    return write_pipeline({**steps, **dedups, **tags, **united}, sink)


def _tag(read: str, name: str, stream: nodes.Stream) -> str:
    """Return a step that makes of each row the name of its stream, and the row as text."""
    values = {"all": "size(all)", "x": "cast(x * 4 as bigint)"}
    names = ("step", "raw") if "raw" in stream.schema.names else stream.schema.names
    texts = (f"coalesce(cast({values.get(name, name)} as string), '-')" for name in names)
    row = f"concat_ws('|', {', '.join(texts)})"
    return f'{{from: {read}, select: {{name: "\'{name}\'", row: "{row}"}}}}'


Outputs = Counter[tuple[str, str]]
"""Rows, each with the name of its stream."""


def run_everywhere(
    spark: SparkSession, folder: Path, text: str, rows: Sequence[list[Any]]
) -> tuple[Outputs, Outputs, Outputs]:
    """Return the rows that a pipeline means, those of a stream, and those of a batch."""
    for name, some in zip(("rows", "more"), rows, strict=True):
        (folder / name).mkdir()
        random_pipelines.frame(some).write_parquet(folder / name / "0.parquet")
    with closing(sqlite3.connect(folder / "t.db")) as database:
        database.execute("create table t (id bigint, name text)")
        database.executemany("insert into t values (:id, :name)", TABLE)
        database.commit()
    plan = plan_text(folder, text)
    lookups = {part.name: [TABLE] for part in plan if get_lookup(part)}
    inputs = {"rows": [rows[0]], "more": [rows[1]], **lookups}
    meant = interpret(plan, inputs, in_time=True)["every"]
    words = ["run", str(folder / "p.yaml"), "--quiet", "--home", str(folder / "home")]
    with ExitStack() as lasting:
        assert run_command_line(words, lasting) == 0
    streamed = _take_output(folder)
    batch(spark, folder / "p.yaml")
    return (
        Counter((row.values["name"], row.values["row"]) for row in meant),
        streamed,
        _take_output(folder),
    )


def _take_output(folder: Path) -> Outputs:
    """Return the rows that were written, and remove them."""
    found: Outputs = Counter()
    for part in sorted((folder / "out").glob("part-*")):
        rows = map(json.loads, part.read_text("utf-8").splitlines())
        found.update((row["name"], row["row"]) for row in rows)
        part.unlink()
    return found


def find_differences(spark: SparkSession, steps: Steps, luck: random.Random) -> Iterator[str]:
    """Yield the streams whose rows in a stream or in a batch are not those that they mean."""
    rows = [draw_rows(luck), draw_rows(luck)]
    with TemporaryDirectory() as folder:
        text = unite_outputs(Path(folder), steps, luck)
        try:
            meant, *runs = run_everywhere(spark, Path(folder), text, rows)
        except Exception as error:
            yield f"{decode_failure(error) or error!r}\n{write_pipeline(steps, '')}"
            return
    for where, found in zip(("stream", "batch"), runs, strict=True):
        wrong = {name for name, _ in (found - meant) + (meant - found)}
        for name in sorted(wrong):
            more, less = (
                {row: n for (of, row), n in some.items() if of == name}
                for some in (found - meant, meant - found)
            )
            step = steps[re.split("[._ ]", name)[0]]
            yield f"{where}: {name} of {step}: not {more} but {less}"


def draw_rows(luck: random.Random) -> list[Any]:
    """Return rows of a source."""
    return [
        {
            "k": luck.choice([None, 1, 2, -7]),
            "s": luck.choice([None, "", "a", "größe"]),
            "v": luck.choice([None, *range(-5, 6)]),
            "x": luck.choice([None, 0.5, -2.25]),
            "at": random_pipelines.BEGIN + timedelta(milliseconds=luck.randrange(30_000)),
        }
        for _ in range(luck.choice([20, 40]))
    ]


def main(pipelines: int, seed: int = 0) -> None:
    """Print the differences of random pipelines, and the number of each pipeline that was tried."""
    with started() as spark, hurried(spark):
        for number in range(seed, seed + pipelines):
            luck = random.Random(number)
            found = [*find_differences(spark, write_steps(luck, STEPS), luck)]
            print(*found, f"{number}: {len(found)} differences", sep="\n", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
