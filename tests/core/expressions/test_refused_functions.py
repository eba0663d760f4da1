"""Every function of Spark is in the catalog, or refused on purpose with a reason and a way out.

tests/core/spark/test_spark_examples.py holds that the record has all functions of a live Spark.
"""

from __future__ import annotations

import pytest

from docs.coverage import SYNONYMS
from headrace.core.aggregates.catalog import ENTRIES_BY_NAME
from headrace.core.expressions import ExpressionErrors, type_expression
from headrace.core.expressions.refused_functions import (
    REFUSED_FAMILIES,
    RefusedFamily,
    find_refused_family,
)
from headrace.core.types.data_types import STRING, Field, Schema
from tests.core.expressions.test_spark_examples import stored
from tests.support.spark_examples import load_record

SCHEMA = Schema((Field("s", STRING),))
NAMES = tuple(load_record()["functions"])

NOT_BUILT = frozenset(
    """
    approx_count_distinct array_insert array_position array_remove arrays_zip from_csv
    make_dt_interval make_interval make_ym_interval map_filter map_zip_with rand randn random
    randstr schema_of_csv sequence shuffle time timestamp_nanos to_csv transform_keys
    transform_values try_make_interval uniform unix_nanos uuid
    """.split()
)
"""The functions that are still to come: the set only shrinks."""


def is_there(name: str) -> bool:
    return SYNONYMS.get(name, name) in ENTRIES_BY_NAME or bool(stored()[name]["same"])


def test_every_function_of_spark_is_there_or_refused_on_purpose() -> None:
    missing = {name for name in NAMES if not is_there(name) and not find_refused_family(name)}
    assert missing <= NOT_BUILT


def test_no_function_of_the_catalog_is_refused_on_purpose() -> None:
    assert not [name for name in ENTRIES_BY_NAME if find_refused_family(name)]


def test_every_family_has_functions_of_spark_and_each_is_in_one() -> None:
    families = {find_refused_family(name) for name in NAMES} - {None}
    assert families == set(REFUSED_FAMILIES)


@pytest.mark.parametrize("family", REFUSED_FAMILIES, ids=lambda family: family.subject)
def test_a_refused_function_is_answered_with_the_reason_and_the_way_out(
    family: RefusedFamily,
) -> None:
    for name in NAMES:
        if find_refused_family(name) is family:
            with pytest.raises(ExpressionErrors) as raised:
                type_expression(f"{name}(s)", SCHEMA)
            (error,) = raised.value.errors
            assert error.message == f'function "{name}" is not supported: {family.reason}'
            assert error.hint == family.way_out
