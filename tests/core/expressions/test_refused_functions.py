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
    aes_decrypt aes_encrypt aggregate approx_count_distinct approx_percentile array_insert
    array_position array_remove array_sort arrays_zip assert_true bit_and bit_or bit_xor
    bitmap_bit_position bitmap_bucket_number bitmap_count collect_union conv convert_timezone corr
    covar_pop covar_samp current_time current_timezone exists filter forall format_number
    format_string from_base32 from_csv from_json from_utc_timestamp get_json_object hash
    histogram_numeric hmac jaro_winkler_similarity json_array_length json_object_keys kurtosis
    levenshtein listagg localtime localtimestamp make_dt_interval make_interval make_time
    make_timestamp_ltz make_timestamp_ntz make_ym_interval map map_concat map_contains_key
    map_entries map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with median
    mode parse_url percentile percentile_approx percentile_cont percentile_disc printf quote
    raise_error rand randn random randstr reduce regr_avgx regr_avgy regr_count regr_intercept
    regr_r2 regr_slope regr_sxx regr_sxy regr_syy schema_of_csv schema_of_json sentences sequence
    shuffle skewness soundex str_to_map string_agg time time_bucket time_diff time_from_micros
    time_from_millis time_from_seconds time_to_micros time_to_millis time_to_seconds time_trunc
    timestamp_nanos to_base32 to_binary to_char to_csv to_json to_number to_time to_timestamp_ltz
    to_timestamp_ntz to_utc_timestamp to_varchar transform transform_keys transform_values
    try_aes_decrypt try_avg try_make_interval try_make_timestamp try_make_timestamp_ltz
    try_make_timestamp_ntz try_parse_url try_sum try_to_binary try_to_number try_to_time uniform
    unix_nanos uuid xxhash64 zip_with
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
