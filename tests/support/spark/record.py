"""Record what Spark answers: `python -m tests.support.spark.record [FAMILY...]`.

Reads cases/FAMILY.json (columns, rows, expressions) and writes answers/FAMILY.json (type and values
of each, or Spark's error), which the suite holds our own evaluation against. Spark is set up as
headrace sets it up for --batch; constant folding is off, so that literals take the run-time path.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ["TZ"] = "UTC"
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ["PYSPARK_PYTHON"] = sys.executable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.types import DataType, StructType

from tests.support.paths import SPARK_ANSWERS, SPARK_CASES
from tests.support.spark.shown_values import is_shown_as_text
from tests.support.spark.sql_values import decode, encode

AT_ONCE = 40


def session() -> SparkSession:
    rules = "org.apache.spark.sql.catalyst.optimizer"
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.caseSensitive": "true",
        "spark.sql.timeType.enabled": "true",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.optimizer.excludedRules": (
            f"{rules}.ConstantFolding,{rules}.ConvertToLocalRelation"
        ),
    }
    builder = SparkSession.builder.master("local[1]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def frame(spark: SparkSession, columns: dict[str, str], rows: list[list[Any]]) -> DataFrame:
    """The input rows, numbered by `__i` so that answers come back in their order."""
    schema = StructType.fromDDL(", ".join(f"`{name}` {ddl}" for name, ddl in columns.items()))
    assert isinstance(schema, StructType)
    types = [field.dataType.simpleString() for field in schema.fields]
    coded = [
        (number, *(decode(value, type) for value, type in zip(row, types, strict=True)))
        for number, row in enumerate(rows)
    ]
    numbered = StructType([T.StructField("__i", T.IntegerType()), *schema.fields])
    return spark.createDataFrame(coded, numbered).coalesce(1)


def shown(expression: str, type: DataType) -> str:
    """The expression in a form that Python can collect whatever its value."""
    if isinstance(type, T.TimestampType | T.TimestampNTZType):
        return f"unix_micros({expression})"
    if isinstance(type, T.DateType):
        return f"unix_date({expression})"
    if is_shown_as_text(type.simpleString()):
        return f"cast({expression} as string)"
    return expression


def shown_type(type: DataType) -> str:
    """The type of what `shown` gives."""
    text = type.simpleString()
    return "string" if is_shown_as_text(text) else text


def values(
    data: DataFrame, typed: list[tuple[str, DataType]], aggregate: bool
) -> dict[str, list[Any] | str]:
    """The values of many expressions at once; one that fails is found by halving."""
    order = [] if aggregate else ["__i"]
    texts = [f"{shown(text, type)} as c{i}" for i, (text, type) in enumerate(typed)]
    try:
        rows = data.selectExpr(*order, *texts).collect()
    except Exception as error:
        if len(typed) == 1:
            return {typed[0][0]: reason(error)}
        half = len(typed) // 2
        return values(data, typed[:half], aggregate) | values(data, typed[half:], aggregate)
    rows = rows if aggregate else [row[1:] for row in sorted(rows, key=lambda row: row[0])]
    return {
        text: [encode(row[i], shown_type(type)) for row in rows]
        for i, (text, type) in enumerate(typed)
    }


def reason(error: Exception) -> str:
    return str(error).split("SQLSTATE")[0].strip()[:300]


def answer(spark: SparkSession, case: dict[str, Any]) -> dict[str, Any]:
    """Type and values of each expression of a cases file."""
    aggregate = case.get("aggregate", False)
    data = frame(spark, case.get("columns") or {"one": "int"}, case.get("rows") or [[1]])
    results: list[dict[str, Any]] = []
    typed: list[tuple[str, DataType]] = []
    for text in case["exprs"]:
        try:
            type = data.selectExpr(f"{text} as r").schema.fields[0].dataType
        except Exception as error:
            results.append({"expr": text, "error": reason(error)})
            continue
        typed.append((text, type))
        results.append({"expr": text, "type": type.simpleString()})
    found: dict[str, list[Any] | str] = {}
    for start in range(0, len(typed), AT_ONCE):
        found |= values(data, typed[start : start + AT_ONCE], aggregate)
    for result in results:
        if "type" in result:
            value = found[result["expr"]]
            result["error" if isinstance(value, str) else "values"] = value
    return {"results": results}


def main(families: list[str]) -> None:
    spark = session()
    for path in sorted(SPARK_CASES.glob("*.json")):
        if not families or path.stem in families:
            answers = answer(spark, json.loads(path.read_text()))
            lines = ",\n".join(json.dumps(r, ensure_ascii=False) for r in answers["results"])
            (SPARK_ANSWERS / path.name).write_text(f'{{"results": [\n{lines}\n]}}\n')
            print(path.stem, len(answers["results"]))


if __name__ == "__main__":
    main(sys.argv[1:])
