"""The table of functions and operators that an expression may call.

The names of each module stand here, so that a call loads only the module of its function.

Tests: tests/core/expressions/functions, tests/core/expressions/test_spark_answers.py and
tests/docs/test_examples.py.
"""

from importlib import import_module

from headrace.core.expressions.function import SqlFunction
from headrace.core.types.loading_cache import LoadingCache

NAMES_BY_MODULE = {
    "logic": (
        "and, or, not, =, <>, <=>, <, <=, >, >=, greatest, least, in, isnull, "
        "isnotnull, is true, is false, equal_null, case, if, coalesce, nvl, ifnull, "
        "nvl2, nullif, nanvl, nullifzero, zeroifnull"
    ),
    "failures": "raise_error, assert_true",
    "between_case": "between, case subject",
    "numbers": (
        "+, -, *, /, div, %, mod, pmod, negative, positive, try_add, try_subtract, "
        "try_multiply, try_divide, try_mod"
    ),
    "rounding": "abs, sign, signum, ceil, ceiling, floor, round, bround",
    "mathematics": "sqrt, exp, ln, log10, log2, log, power, pow, isnan, typeof, width_bucket",
    "trigonometry": (
        "sin, cos, tan, cot, sec, csc, asin, acos, atan, atan2, degrees, radians, sinh, "
        "cosh, tanh, asinh, acosh, atanh, cbrt, expm1, log1p, hypot, rint, pi, e"
    ),
    "random_values": "rand, random, randn, uniform, uuid, randstr, shuffle",
    "bitwise": (
        "&, |, ^, ~, <<, shiftleft, >>, shiftright, >>>, shiftrightunsigned, bit_count, "
        "getbit, bit_get"
    ),
    "conversions": (
        "boolean, tinyint, smallint, int, bigint, float, double, decimal, string, "
        "binary, time, date, timestamp"
    ),
    "collections": (
        "[], ., size, cardinality, element_at, try_element_at, get, array_contains, "
        "array, named_struct, struct"
    ),
    "arrays": (
        "array_size, array_max, array_min, array_join, array_append, array_prepend, "
        "array_compact, array_repeat, flatten, slice, sort_array, arrays_overlap, "
        "array_distinct, array_union, array_except, array_intersect"
    ),
    "array_elements": "array_position, array_remove, array_insert, arrays_zip",
    "sequences": "sequence",
    "higher_order": "transform, filter, exists, forall, zip_with, aggregate, reduce, array_sort",
    "higher_order_maps": "map_filter, transform_values, transform_keys, map_zip_with",
    "maps": (
        "map, map_concat, map_contains_key, map_entries, map_from_arrays, "
        "map_from_entries, map_keys, map_values, str_to_map"
    ),
    "strings": (
        "length, char_length, character_length, len, octet_length, bit_length, quote, "
        "lower, lcase, upper, ucase, initcap, reverse, contains, startswith, endswith, "
        "substring, substr, left, right, instr, locate, position, overlay, "
        "substring_index, find_in_set, split_part, sentences, trim, btrim, ltrim, "
        "rtrim, lpad, rpad, ||, concat, concat_ws, repeat, space, elt, replace, "
        "translate"
    ),
    "confidential_texts": "mask, luhn_check",
    "text_similarity": "levenshtein, jaro_winkler_similarity, soundex",
    "encodings": (
        "bin, hex, unhex, factorial, ascii, char, chr, base64, unbase64, md5, sha1, "
        "sha, sha2, crc32"
    ),
    "digits": (
        "conv, to_base32, from_base32, to_binary, try_to_binary, bitmap_bit_position, "
        "bitmap_bucket_number, bitmap_count"
    ),
    "row_hashes": "hash, xxhash64",
    "ciphers": "aes_encrypt, aes_decrypt, try_aes_decrypt, hmac",
    "number_formats": "to_char, to_varchar, to_number, try_to_number",
    "format_strings": "format_string, printf, format_number",
    "charsets": (
        "encode, decode, is_valid_utf8, try_validate_utf8, validate_utf8, "
        "make_valid_utf8, url_encode, url_decode, try_url_decode"
    ),
    "addresses": "parse_url, try_parse_url",
    "patterns": (
        "like, ilike, rlike, regexp_like, regexp, regexp_replace, regexp_extract, "
        "regexp_extract_all, regexp_count, regexp_instr, regexp_substr, split"
    ),
    "json_texts": (
        "get_json_object, json_array_length, json_object_keys, from_json, to_json, schema_of_json"
    ),
    "csv_texts": "from_csv, to_csv, schema_of_csv",
    "dates": (
        "year, quarter, month, day, dayofmonth, dayofweek, weekday, dayofyear, "
        "weekofyear, date_add, dateadd, date_sub, datediff, date_diff, dayname, "
        "monthname, add_months, last_day, next_day, trunc, make_date, unix_date, "
        "date_from_unix_date"
    ),
    "timestamps": (
        "hour, minute, second, date_trunc, current_timestamp, now, localtimestamp, "
        "current_date, curdate"
    ),
    "timestamp_constructors": (
        "make_timestamp, try_make_timestamp, make_timestamp_ltz, "
        "try_make_timestamp_ltz, make_timestamp_ntz, try_make_timestamp_ntz"
    ),
    "time_zones": "from_utc_timestamp, to_utc_timestamp, convert_timezone, current_timezone",
    "time_buckets": "time_bucket",
    "clock_times": (
        "make_time, to_time, try_to_time, time_trunc, time_diff, current_time, "
        "localtime, time_from_micros, time_from_millis, time_from_seconds, "
        "time_to_micros, time_to_millis, time_to_seconds"
    ),
    "interval_fields": "make_dt_interval, make_ym_interval",
    "date_part": "date_part, datepart",
    "time_formats": (
        "to_timestamp, try_to_timestamp, to_timestamp_ltz, to_timestamp_ntz, to_date, "
        "try_to_date, date_format, unix_timestamp, to_unix_timestamp, from_unixtime"
    ),
    "unix_time": (
        "unix_seconds, unix_millis, unix_micros, timestamp_seconds, timestamp_millis, "
        "timestamp_micros"
    ),
    "time_differences": "timestampdiff, timestampadd, months_between",
}
"""The name and then the aliases of each function, by the module of the table that has it."""

_MODULES = {name: module for module, names in NAMES_BY_MODULE.items() for name in names.split(", ")}


def load_family(module: str) -> tuple[SqlFunction, ...]:
    """Return the functions of a module, which are in a tuple of its name in capitals."""
    loaded = import_module(f"{__name__}.{module}")
    return getattr(loaded, module.upper())  # type: ignore[no-any-return]


def _load_function(name: str) -> SqlFunction:
    family = load_family(_MODULES[name])
    return next(row for row in family if name == row.name or name in row.aliases)


FUNCTIONS = LoadingCache(_MODULES, _load_function)
"""Every function by its lower-case name and by each alias."""


def list_functions() -> tuple[SqlFunction, ...]:
    """Return every function once."""
    return tuple(row for module in NAMES_BY_MODULE for row in load_family(module))
