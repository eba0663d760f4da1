"""Functions of other SQL dialects and of Python, with the expression that computes the same here.

Each expression is complete: a test types all of them over columns named by the placeholders in it.
"""

from __future__ import annotations

from collections.abc import Mapping

FOREIGN_FUNCTIONS: Mapping[str, str] = {
    **dict.fromkeys(
        ("strftime", "format_datetime", "format_timestamp", "time_format"),
        "date_format(time, 'yyyy-MM-dd')",
    ),
    **dict.fromkeys(("day_name", "to_day_name"), "date_format(time, 'EEEE')"),
    "month_name": "date_format(time, 'MMMM')",
    **dict.fromkeys(
        ("strptime", "parse_datetime", "parse_timestamp", "to_datetime"),
        "to_timestamp(text, 'yyyy-MM-dd HH:mm:ss')",
    ),
    **dict.fromkeys(("str_to_date", "parse_date", "todate"), "to_date(text, 'yyyy-MM-dd')"),
    **dict.fromkeys(
        ("getdate", "getutcdate", "sysdate", "systimestamp", "sysdatetime"),
        "current_timestamp()",
    ),
    **dict.fromkeys(
        ("utc_timestamp", "current_datetime", "clock_timestamp", "utcnow"), "current_timestamp()"
    ),
    **dict.fromkeys(("proctime", "current_row_timestamp"), "current_timestamp()"),
    "convert_tz": "from_utc_timestamp(time, 'Europe/Oslo')",
    **dict.fromkeys(("today", "utc_date"), "current_date()"),
    **dict.fromkeys(("to_epoch", "unix_epoch", "to_unixtime", "epoch"), "unix_timestamp(time)"),
    **dict.fromkeys(("to_millis", "epoch_ms", "to_unix_millis"), "unix_millis(time)"),
    **dict.fromkeys(("from_epoch", "from_epoch_seconds"), "timestamp_seconds(number)"),
    **dict.fromkeys(("from_epoch_ms", "from_unix_millis"), "timestamp_millis(number)"),
    **dict.fromkeys(("date_bin", "datetrunc"), "date_trunc('HOUR', time)"),
    **dict.fromkeys(("days_between", "daysbetween", "date_difference"), "datediff(later, earlier)"),
    **dict.fromkeys(("timestamp_diff",), "timestampdiff(HOUR, earlier, later)"),
    **dict.fromkeys(("timestamp_add", "date_plus"), "timestampadd(HOUR, 1, time)"),
    **dict.fromkeys(("adddate", "add_days"), "date_add(date, 1)"),
    "subdate": "date_sub(date, 1)",
    "eomonth": "last_day(date)",
    **dict.fromkeys(("week", "isoweek", "week_of_year"), "weekofyear(time)"),
    **dict.fromkeys(("dow", "day_of_week"), "dayofweek(time)"),
    **dict.fromkeys(("tonumber", "parse_float", "to_double"), "cast(text as double)"),
    **dict.fromkeys(("to_int", "toint", "parse_int", "to_integer", "to_bigint"), "int(text)"),
    **dict.fromkeys(("str", "to_string", "tostring"), "string(value)"),
    "convert": "cast(value as bigint)",
    **dict.fromkeys(("safe_cast", "tryconvert", "try_convert"), "try_cast(text as bigint)"),
    **dict.fromkeys(("safe_divide", "div0"), "try_divide(number, other)"),
    **dict.fromkeys(("is_null", "isna"), "value is null"),
    **dict.fromkeys(("is_not_null", "notnull", "notna"), "value is not null"),
    **dict.fromkeys(("nz", "if_null", "fillna"), "coalesce(value, other)"),
    **dict.fromkeys(("iif", "iff", "where"), "if(condition, value, other)"),
    "switch": "case value when 1 then 'a' else 'b' end",
    **dict.fromkeys(("strlen", "str_length", "text_length"), "length(text)"),
    **dict.fromkeys(("charindex", "indexof", "index_of", "strpos", "find"), "instr(text, 'part')"),
    **dict.fromkeys(("splitpart", "split_index"), "split_part(text, ',', 1)"),
    **dict.fromkeys(("mid", "slice_text"), "substring(text, 1, 2)"),
    "strip": "trim(text)",
    "lstrip": "ltrim(text)",
    "rstrip": "rtrim(text)",
    **dict.fromkeys(("tolower", "to_lower", "lowercase", "lower_case"), "lower(text)"),
    **dict.fromkeys(("toupper", "to_upper", "uppercase", "upper_case"), "upper(text)"),
    **dict.fromkeys(("capitalize", "title", "proper"), "initcap(text)"),
    **dict.fromkeys(("starts_with", "begins_with"), "startswith(text, 'part')"),
    "ends_with": "endswith(text, 'part')",
    **dict.fromkeys(("includes", "has", "array_has", "list_contains"), "array_contains(list, 1)"),
    **dict.fromkeys(
        ("regexp_matches", "regex_match", "regexp_match", "matches"), r"text rlike r'\d+'"
    ),
    "regex_extract": r"regexp_extract(text, r'\d+', 0)",
    **dict.fromkeys(("regex_replace", "re_sub"), r"regexp_replace(text, r'\d+', '')"),
    **dict.fromkeys(("string_split", "str_split", "split_to_array", "explode"), "split(text, ',')"),
    **dict.fromkeys(("array_length", "list_size", "count_elements"), "size(list)"),
    **dict.fromkeys(("list", "make_array", "array_construct"), "array(1, 2)"),
    "element": "list[0]",
    "array_concat": "concat(list, list)",
    "array_reverse": "reverse(list)",
    "array_slice": "slice(list, 1, 2)",
    "map_union": "map_concat(map('a', 1), map('b', 2))",
    "from_base64": "unbase64(text)",
    "to_base64": "base64(text)",
    **{f"sha{bits}": f"sha2(text, {bits})" for bits in (224, 256, 384, 512)},
    "is_alpha": "text rlike '^[A-Za-z]+$'",
    "is_digit": "text rlike '^[0-9]+$'",
    "is_decimal": "try_cast(text as double) is not null",
    "row": "struct(text, number)",
    **{
        "to_number/1": "cast(text as double)",
        "isnull/2": "coalesce(value, other)",
        "instr/3": "locate('part', text, 1)",
    },
    **{"datediff/3": "timestampdiff(DAY, earlier, later)"},
    **dict.fromkeys(("date_add/3", "dateadd/3"), "timestampadd(DAY, 1, time)"),
    **{"date_trunc/1": "date_trunc('DAY', time)", "trim/2": "btrim(text, 'x')"},
    **dict.fromkeys(
        ("json_extract", "json_value", "json_query", "json_extract_scalar", "json_get"),
        "get_json_object(text, '$.a')",
    ),
    "json_parse": "from_json(text, 'a int, b string')",
    "json_exists": "get_json_object(text, '$.a') is not null",
    "is_json": "get_json_object(text, '$') is not null",
    "json_object": "to_json(named_struct('a', number))",
    "json_array": "to_json(array(1, 2))",
    "json_string": "to_json(list)",
    "json_extract_path_text": "get_json_object(text, '$.a')",
    "modulo": "number % other",
    "square": "power(number, 2)",
    "truncate": "round(number, 2)",
}
"""An expression for each name, or for a name with a number of arguments that it does not take here.

`PLACEHOLDERS` are the columns in the expressions.
"""

FOREIGN_AGGREGATES: Mapping[str, str] = {
    "group_concat": "listagg(text, ',')",
    "collect": "collect_list(value)",
    "json_arrayagg": "to_json(collect_list(value))",
    "json_objectagg": "to_json(map_from_entries(collect_list(struct(text, value))))",
    **dict.fromkeys(("countif", "count_where"), "count_if(condition)"),
    **dict.fromkeys(("arg_max", "argmax"), "max_by(value, number)"),
    **dict.fromkeys(("arg_min", "argmin"), "min_by(value, number)"),
    **dict.fromkeys(("total", "sum0"), "sum(number)"),
    "nunique": "count(distinct value)",
    **dict.fromkeys(("quantile", "quantile_cont"), "percentile(number, 0.5)"),
    "approx_quantile": "percentile_approx(number, 0.5)",
}
"""The same for aggregates, which `aggregate` of a step takes."""

PLACEHOLDERS: Mapping[str, str] = {
    **{"text": "string", "value": "int", "other": "int", "number": "int", "condition": "boolean"},
    **{"time": "timestamp", "earlier": "timestamp", "later": "timestamp", "date": "date"},
    "list": "array<int>",
}
"""The types of the columns that stand for the caller's own values."""

JSON_ADVICE = "as in from_json(text, 'a int, b string')"
FUNCTION_SIMILARITY = 0.7
"""Names of functions are short words: less similar ones mean something else."""
USER_FUNCTION_HINT = "a Python function can compute it: map: {python: FILE.py:NAME, returns: {...}}"


def find_foreign_hint(name: str) -> str:
    """Return the hint for a function of another system, "" if the name is none.

    >>> find_foreign_hint("strftime")
    "as in date_format(time, 'yyyy-MM-dd')"
    """
    known = FOREIGN_FUNCTIONS.get(name) or FOREIGN_AGGREGATES.get(name)
    return f"as in {known}" if known else ""
