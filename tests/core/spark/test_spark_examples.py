"""A live Spark has the functions, and gives the answers, that the record of its examples has."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.support.spark.example_statements import find_statements
from tests.support.spark.record_examples import (
    describe_function,
    find_groups,
    list_functions,
    record_statement,
    recording,
)
from tests.support.spark_examples import is_variable, load_record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE = 60


def test_the_record_has_all_functions_of_spark(spark: SparkSession) -> None:
    functions, groups = load_record()["functions"], find_groups(spark)
    assert {name: each["group"] for name, each in functions.items()} == {
        name: groups.get(name, "operator") for name in list_functions(spark)
    }


def test_a_sample_of_the_record_is_what_spark_answers(spark: SparkSession) -> None:
    record = load_record()
    assert record["spark"] == spark.version
    examples = [
        (name, example)
        for name, function in record["functions"].items()
        for example in function["examples"]
        if "setting" not in example and not is_variable(example["statement"])
    ]
    tables = dict(record["tables"])
    with recording(spark):
        for name, example in Random(f"{len(examples)}").sample(examples, SAMPLE):
            statement = example["statement"]
            assert statement in find_statements(describe_function(spark, name))
            assert record_statement(spark, statement, tables) == example
    assert tables == record["tables"]
