"""Record Spark's examples of its functions: `python -m tests.support.spark.record_examples`.

A live Spark names its functions and describes each; every statement of the examples is run, and its
columns are written with their types and values to tests/core/expressions/spark_examples.json. A
statement that Spark rejects is written with Spark's error, and one that needs a setting with that
setting; neither has values.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

os.environ["TZ"] = "UTC"

from tests.support.paths import SPARK_EXAMPLES
from tests.support.spark.example_statements import find_statements, parse_select
from tests.support.spark.quick import hurried
from tests.support.spark.session import started
from tests.support.spark.sql_values import encode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

JsonObject: TypeAlias = dict[str, Any]

_TIME_SETTING = "spark.sql.timeType.enabled"
"""Spark has the type `time`, but off by default."""

_AS_TEXT = ("interval", "time(", "variant", "geometry", "geography", "timestamp_ntz(", "void")
"""Beginnings of the names of types whose values are recorded as Spark's text."""


def list_functions(spark: SparkSession) -> list[str]:
    """Return the names of all functions and operators, sorted."""
    return sorted(row[0] for row in spark.sql("show functions").collect())


def find_groups(spark: SparkSession) -> dict[str, str]:
    """Return the group of each function in Spark's documentation, such as `agg_funcs`."""
    utils = spark._jvm.org.apache.spark.sql.api.python.PythonSQLUtils  # type: ignore[union-attr]
    return {info.getName(): info.getGroup() for info in utils.listBuiltinFunctionInfos()}


def describe_function(spark: SparkSession, name: str) -> str:
    """Return Spark's documentation of a function."""
    quoted = f"`{name}`" if name.isidentifier() else name
    return "\n".join(r[0] for r in spark.sql(f"describe function extended {quoted}").collect())


def record_function(spark: SparkSession, name: str, tables: JsonObject) -> list[JsonObject]:
    """Return the function's examples with their answers; their inline tables go to `tables`."""
    examples, setting = [], ""
    for statement in find_statements(describe_function(spark, name)):
        if statement.startswith("SET "):
            setting = "" if statement.endswith("=false") else statement.removeprefix("SET ")
        elif setting:
            examples.append({"statement": statement, "setting": setting})
        else:
            examples.append(record_statement(spark, statement, tables))
    return examples


def record_statement(spark: SparkSession, statement: str, tables: JsonObject) -> JsonObject:
    """Return a statement with Spark's answer, or its error.

    Its kind is `select` or `aggregate` where its columns are expressions, otherwise `query`.
    """
    example: JsonObject = {"statement": statement, "kind": "query"}
    select = parse_select(statement)
    try:
        data = spark.sql(statement)
        columns = record_columns(data)
    except Exception as error:
        return example | {"error": _first_line(error)}
    if select and len(select.expressions) == len(columns):
        example["kind"] = "aggregate" if "Aggregate [" in _analyzed_plan(data) else "select"
        for column, expression in zip(columns, select.expressions, strict=True):
            column["name"] = expression
        if select.table:
            example["table"] = select.table
            if select.table not in tables:
                tables[select.table] = record_columns(spark.sql(f"select * from {select.table}"))
    return example | {"columns": columns}


def _first_line(error: Exception) -> str:
    return str(error).split("SQLSTATE")[0].strip().split("\n")[0][:200]


def _analyzed_plan(data: DataFrame) -> str:
    return str(data._jdf.queryExecution().analyzed().toString())


def record_columns(data: DataFrame) -> list[JsonObject]:
    """Return the columns of a result: name, type, and coded values in row order."""
    fields = data.schema.fields
    renamed = data.toDF(*(f"c{i}" for i in range(len(fields))))
    texts = [_collectable(f"c{i}", field.dataType) for i, field in enumerate(fields)]
    rows = renamed.selectExpr(*texts).collect()
    return [
        {
            "name": field.name,
            "type": field.dataType.simpleString(),
            "values": [_encode(row[i], field.dataType) for row in rows],
        }
        for i, field in enumerate(fields)
    ]


def _collectable(name: str, type: DataType) -> str:
    """Return the column in a form that Python can collect whatever its value is."""
    text = type.simpleString()
    if text == "timestamp":
        return f"unix_micros({name}) as {name}"
    if text == "date":
        return f"unix_date({name}) as {name}"
    return f"cast({name} as string) as {name}" if _is_shown_as_text(text) else name


def _is_shown_as_text(type: str) -> bool:
    """Whether the type is, or contains, one whose values Python cannot collect exactly."""
    inner = type.replace("<", " ").replace(":", " ").replace(",", " ").split()
    return any(part.startswith(_AS_TEXT) for part in inner)


def _encode(value: Any, type: DataType) -> Any:
    text = type.simpleString()
    return value if _is_shown_as_text(text) else encode(value, text)


def write_record(record: JsonObject) -> None:
    """Write the record with one example a line, so that a change is seen in a diff."""
    lines = [f'{{"spark": {json.dumps(record["spark"])},', '"tables": {']
    lines += _comma_separated(f"{_dump(k)}: {_dump(v)}" for k, v in record["tables"].items())
    lines.append('},\n"functions": {')
    entries = []
    for name, function in record["functions"].items():
        examples = ",\n".join(f"  {_dump(example)}" for example in function["examples"])
        body = f"[\n{examples}\n]" if examples else "[]"
        head = f'{_dump(name)}: {{"group": {_dump(function["group"])}, "examples": '
        entries.append(f"{head}{body}}}")
    lines += _comma_separated(entries)
    SPARK_EXAMPLES.write_text("\n".join([*lines, "}}\n"]), "utf-8")


def _comma_separated(lines: Iterator[str] | Sequence[str]) -> list[str]:
    return [",\n".join(lines)]


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@contextmanager
def recording(spark: SparkSession) -> Iterator[None]:
    """Set the session as examples are recorded, until the end of the context."""
    with hurried(spark):
        before = spark.conf.get(_TIME_SETTING)
        spark.conf.set(_TIME_SETTING, "true")
        yield
        spark.conf.set(_TIME_SETTING, str(before))


def main() -> None:
    """Record the answers again, and write them."""
    with started() as spark, recording(spark):
        groups, tables = find_groups(spark), dict[str, Any]()
        functions = {
            name: {
                "group": groups.get(name, "operator"),
                "examples": record_function(spark, name, tables),
            }
            for name in list_functions(spark)
        }
        write_record({"spark": spark.version, "tables": tables, "functions": functions})
    examples = [example for function in functions.values() for example in function["examples"]]
    failed = sum("error" in example for example in examples)
    print(f"{len(functions)} functions, {len(examples)} statements, {failed} rejected by Spark")


if __name__ == "__main__":
    main()
