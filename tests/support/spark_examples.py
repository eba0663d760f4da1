"""Spark's own examples of its functions, run by headrace: `python -m tests.support.spark_examples`.

The record has the statements and a live Spark's answers (tests/support/spark/record_examples.py
writes it); nothing here needs Spark. All statements become one pipeline: a step for each inline
table, whose columns are the select lists over it, and a step for each generator, in its `explode`.
What validation refuses is taken out, the rest is
run as a stream, and each value is compared with Spark's. An example is the same if all its columns
have Spark's type and values. The command stores which examples are the same, for the tests and for
docs/functions.md, and prints those that differ and the reasons of the others.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import polars as pl

from headrace.connectors.memory import InMemoryData
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.expressions.generators import GENERATORS
from headrace.core.pipeline.loader import load_pipeline
from headrace.core.plan.nodes import Plan
from headrace.core.plan.plan_assembly import build_plan
from headrace.core.types.data_types import Field, Schema
from headrace.core.types.type_parser import TypeTextError, parse_type
from tests.core.expressions.test_spark_answers import same, series
from tests.support import aggregation
from tests.support.paths import SPARK_EXAMPLES, SPARK_OUTCOMES
from tests.support.runtime.memory_pipelines import run_plan
from tests.support.spark.shown_values import is_shown_as_text, to_spark_text
from tests.support.spark.sql_values import encode

Outcome: TypeAlias = Literal["same", "different", "refused", "not compared"]

VARIABLE_FUNCTIONS = frozenset(
    """
    curdate current_catalog current_database current_date current_path current_schema current_time
    current_timestamp current_timezone current_user localtime localtimestamp now session_user user
    input_file_block_length input_file_block_start input_file_name java_method reflect
    monotonically_increasing_id rand randn random randstr shuffle spark_partition_id try_reflect
    uniform uuid version
    """.split()
)
"""Functions whose value depends on the time, the session, the place of a row or a random number."""

VARIABLE_STATEMENTS = frozenset(
    (
        "SELECT hex(aes_encrypt('Spark', '0000111122223333'))",
        "SELECT hex(aes_encrypt('Spark SQL', '0000111122223333', 'GCM'))",
        "SELECT base64(aes_encrypt('Apache Spark', '1234567890abcdef', 'CBC', 'DEFAULT'))",
    )
)
"""Statements whose value depends on a random number in a function that needs none."""

_VARIABLE_CALL = re.compile(
    rf"\b(?:{'|'.join(sorted(VARIABLE_FUNCTIONS))})(?:\(|$)|\bunix_timestamp\(\)", re.IGNORECASE
)


@dataclass(slots=True)
class Example:
    """A documented statement of a function, Spark's answer, and what headrace makes of it."""

    function: str
    group: str
    statement: str
    kind: str
    table: str
    columns: Sequence[Mapping[str, Any]]
    reason: str = ""
    outcome: Outcome = "same"

    def decide(self, outcome: Outcome, reason: str) -> None:
        """Give the example an outcome other than `same`; the first one stays."""
        if self.outcome == "same":
            self.outcome, self.reason = outcome, reason


@dataclass(slots=True)
class Step:
    """A step of the pipeline: the columns of all examples over one inline table."""

    name: str
    table: str
    aggregates: bool
    generator: str = ""
    """The call in `explode`, if there is one."""
    alias: tuple[str, str] = ("", "")
    """A name that later items of the select list use, and its expression: computed in `with`."""
    void_type: str = ""
    """The type of the columns of the table that are NULL in all rows."""
    columns: list[tuple[Example, Mapping[str, Any]]] = field(default_factory=list)


def load_examples() -> list[Example]:
    """Load every example of the record; those that cannot be compared have their outcome."""
    examples = []
    for name, function in load_record()["functions"].items():
        for each in function["examples"]:
            example = Example(
                name,
                function["group"],
                each["statement"],
                each.get("kind", ""),
                each.get("table", ""),
                each.get("columns", ()),
            )
            examples.append(example)
            if "setting" in each:
                example.decide("not compared", f"needs {each['setting']}")
            elif "error" in each:
                example.decide("not compared", f"Spark fails: {each['error']}")
            elif is_variable(each["statement"]):
                example.decide("not compared", "its value is another one at each run")
            elif example.kind == "query" and not find_generator(example.statement):
                example.decide("refused", "a query and not a list of expressions")
    return examples


_GENERATOR = re.compile(rf"SELECT ((?:{'|'.join(GENERATORS)})\(.*\))", re.IGNORECASE | re.DOTALL)


def find_generator(statement: str) -> str:
    """Return the call of a generator that is the whole select list; empty if there is none."""
    found = _GENERATOR.fullmatch(statement)
    return found[1] if found else ""


_ALIAS = re.compile(r"SELECT ('[^']*') AS (\w+), ", re.IGNORECASE)


def find_alias(statement: str) -> tuple[str, str]:
    """Return the name of the first item of a select list, and its text; empty if it has none."""
    found = _ALIAS.match(statement)
    return (found[2], found[1]) if found else ("", "")


_TEXT_AGGREGATES = ("listagg", "string_agg")


def find_void_type(function: str) -> str:
    """Return the type to which Spark casts an argument of an aggregate that is only NULL.

    No column here has the type void; `typeof` of Spark's results shows that it casts it.
    """
    return "string" if function in _TEXT_AGGREGATES else "double"


def is_variable(statement: str) -> bool:
    """Whether the answer to the statement may be another one at each run."""
    return statement in VARIABLE_STATEMENTS or _VARIABLE_CALL.search(statement) is not None


def load_record() -> dict[str, Any]:
    """Load the record as it is."""
    record: dict[str, Any] = json.loads(SPARK_EXAMPLES.read_text("utf-8"))
    return record


def run_examples(folder: Path) -> list[Example]:
    """Run all examples as one pipeline, and return them with their outcomes."""
    examples, tables = load_examples(), load_record()["tables"]
    steps = _make_steps(example for example in examples if example.outcome == "same")
    inputs: dict[str, dict[str, list[pl.DataFrame]]] = {}
    schemas: dict[str, str] = {}
    for step in steps:
        columns = tables.get(step.table) or [{"name": "one", "type": "int", "values": [1]}]
        try:
            types = {c["name"]: c["type"].replace("void", step.void_type) for c in columns}
            fields = [Field(name, *parse_type(type)) for name, type in types.items()]
        except TypeTextError as error:
            _refuse(step, str(error))
            continue
        frame = pl.DataFrame([series(f, c["values"]) for f, c in zip(fields, columns, strict=True)])
        inputs[step.name] = {"0": [frame]}
        schemas[step.name] = json.dumps(types)
    memory = InMemoryData(inputs=inputs)
    plan = _plan_accepted(folder, [s for s in steps if s.name in schemas], schemas, memory)
    with ThreadPoolExecutor(2) as executor:
        run_plan(folder, plan, memory, KernelExecutor(executor))
    for step in steps:
        if step.name in memory.outputs:
            schema = plan.streams[f"s{step.name}"].schema
            _compare(step, pl.concat(memory.outputs[step.name]), schema)
    return examples


def _make_steps(examples: Iterable[Example]) -> list[Step]:
    steps: dict[tuple[object, ...], Step] = {}
    for example in examples:
        void_type = find_void_type(example.function) if example.kind == "aggregate" else ""
        key = (
            *(example.table, example.kind == "aggregate", find_generator(example.statement)),
            *(find_alias(example.statement), void_type),
        )
        step = steps.setdefault(key, Step(f"t{len(steps)}", *key))
        step.columns += [(example, column) for column in example.columns]
    return list(steps.values())


def _refuse(step: Step, reason: str) -> None:
    for example, _ in step.columns:
        example.decide("refused", reason)


def _plan_accepted(
    folder: Path, steps: Sequence[Step], schemas: Mapping[str, str], memory: InMemoryData
) -> Plan:
    """Return the plan of what validation accepts; the other examples are refused."""
    connectors = {"memory": memory.build_connector()}
    while True:
        lines = list(_write_pipeline(steps, schemas))
        file = folder / "examples.yaml"
        file.write_text("\n".join(line for line, _ in lines), "utf-8")
        plan, problems = build_plan(load_pipeline(file, connectors, env={}))
        if plan is not None:
            return plan
        for problem in problems:
            if problem.severity == "error":
                assert problem.location is not None, problem
                example = lines[problem.location.line - 1][1]
                assert example is not None, problem
                example.decide("refused", problem.message)


def _write_pipeline(
    steps: Sequence[Step], schemas: Mapping[str, str]
) -> Iterator[tuple[str, Example | None]]:
    """Yield the lines of the pipeline, each with the example that it is for."""
    used = [step for step in steps if any(e.outcome == "same" for e, _ in step.columns)]
    yield "name: examples", None
    yield "sources:", None
    for step in used:
        name = step.name
        yield f"  {name}: {{memory: {{data: {name}}}, schema: {schemas[name]}}}", None
    yield "steps:", None
    for step in used:
        yield f"  s{step.name}:", None
        yield f"    from: {step.name}", None
        if step.generator:
            names = ", ".join(f"c{index}" for index in range(len(step.columns)))
            text = json.dumps(f"{step.generator} as ({names})", ensure_ascii=False)
            yield f"    explode: {text}", step.columns[0][0]
            continue
        if step.aggregates:
            yield "    window: global", None
        if step.alias[0]:
            alias, value = (json.dumps(text, ensure_ascii=False) for text in step.alias)
            yield f"    with: {{{alias}: {value}}}", step.columns[0][0]
        yield f"    {'aggregate' if step.aggregates else 'select'}:", None
        for index, (example, column) in enumerate(step.columns):
            if example.outcome == "same":
                text = json.dumps(write_column(column), ensure_ascii=False)
                yield f"      c{index}: {text}", example
    yield "sinks:", None
    for step in used:
        yield f"  o{step.name}: {{from: s{step.name}, memory: {{data: {step.name}}}}}", None


def write_column(column: Mapping[str, Any]) -> str:
    """Return the expression of a column; one of type void is cast to a type of columns."""
    text = str(column["name"])
    return f"cast({text} as {_TYPE_OF_NULLS})" if column["type"] == "void" else text


_TYPE_OF_NULLS = "string"


def _compare(step: Step, result: pl.DataFrame, schema: Schema) -> None:
    """Decide the examples of a step whose values or types are not Spark's."""
    for index, (example, column) in enumerate(step.columns):
        if example.outcome not in ("same", "different"):
            continue
        values = result[f"c{index}"]
        type = schema.get(f"c{index}")
        assert type is not None
        ours = _encode(values, str(type.type))
        shown = re.sub(r" not null\b|`", "", str(type.type))
        if shown != column["type"].replace("void", _TYPE_OF_NULLS):
            example.decide("different", f"{column['name']}: {shown}, Spark {column['type']}")
        elif not _is_same(column["name"], ours, column["values"]):
            example.decide("different", f"{column['name']}: {ours}, Spark {column['values']}")


def _encode(values: pl.Series, type: str) -> list[Any]:
    if is_shown_as_text(type):
        return to_spark_text(values, parse_type(type)[0]).to_list()
    if isinstance(values.dtype, pl.Datetime | pl.Date):
        values = values.to_physical()
    return [encode(value, type) for value in values.to_list()]


_OPEN_RESULTS = {"mode(col, false)": [[-10], [0], [10]]}
"""Results of which Spark gives any: all values of the example are equally frequent."""


def _is_same(expression: str, ours: list[Any], theirs: list[Any]) -> bool:
    if expression in _OPEN_RESULTS:
        return ours in _OPEN_RESULTS[expression]
    if re.match(r"(?:skewness|kurtosis)\(", expression):  # rounded in another order
        return aggregation.same(ours, theirs)
    return same(ours, theirs, close=_is_close(expression))


_INEXACT = re.compile(
    r"\b(?:exp|expm1|power|pow|ln|log|log1p|log2|log10|cbrt|hypot"
    r"|a?(?:sin|cos|tan)h?|cot|sec|csc|atan2)\(",
    re.IGNORECASE,
)
"""Functions that docs/functions.md calls equal to Spark's only within 1e-15 of the value."""


def _is_close(expression: str) -> bool:
    return bool(_INEXACT.search(expression))


def summarize(examples: Iterable[Example]) -> dict[str, dict[str, Any]]:
    """Return by function the statements that have Spark's answer, and the number of refused ones.

    A function whose examples cannot be compared, or that has none, is there with neither.
    """
    found: dict[str, dict[str, Any]] = {
        name: {"same": [], "refused": 0} for name in load_record()["functions"]
    }
    for example in examples:
        if example.outcome == "same":
            found[example.function]["same"].append(example.statement)
        elif example.outcome == "refused":
            found[example.function]["refused"] += 1
    return found


def store_outcomes(examples: Iterable[Example]) -> None:
    """Store the summary, with one statement a line."""
    lines = []
    for name, found in summarize(examples).items():
        texts = ",\n  ".join(json.dumps(text, ensure_ascii=False) for text in found["same"])
        same = f"[\n  {texts}\n]" if texts else "[]"
        lines.append(f'{json.dumps(name)}: {{"refused": {found["refused"]}, "same": {same}}}')
    SPARK_OUTCOMES.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def main() -> None:
    """Store the outcomes; print the examples that are not the same, with reasons, and counts."""
    with tempfile.TemporaryDirectory() as folder:
        examples = run_examples(Path(folder))
    store_outcomes(examples)
    for outcome in ("not compared", "refused", "different", "same"):
        found = [example for example in examples if example.outcome == outcome]
        if outcome != "same":
            for each in found:
                print(f"{outcome}: {each.function}: {each.statement}\n    {each.reason}")
        print(f"{outcome}: {len(found)}", file=sys.stderr)


if __name__ == "__main__":
    main()
