"""Literals of random expressions, and their constant arguments."""

from __future__ import annotations

_PATTERNS = [
    r"'a'", r"'[a-c]+'", r"r'\d+'", r"r'(\w)(\d)'", r"'^a'", r"'b$'", r"'X|,'", r"r'\s*,\s*'",
    r"'(?i)ABC'", r"r'[^a-z]'", r"'.'", r"r'\.'", r"'é'", r"'[À-Ö]'", r"r'\p{L}+'", r"r'\p{Lu}'",
    r"r'\S'", r"r'\W'", r"r'(a)|(b)'", r"'a{2}'", r"'(?s)a.b'", r"'😀'", r"'x?'", r"'[0-9]{2,4}'",
]  # fmt: skip
_FORMATS = [
    "'yyyy-MM-dd'", "'yyyy-MM-dd HH:mm:ss'", "'yyyy-MM-dd HH:mm:ss.SSSSSS'", "'d/M/yyyy H:mm'",
    "'EEE d MMM yyyy'", "'EEEE, MMMM'", "'h:mm a'", "'D'", "'yy'", "\"yyyy-MM-dd'T'HH:mm:ssXXX\"",
    "'Q'", "'HHmmss'", "'u'", "'SSS'", "'MMM d, y'",
]  # fmt: skip
_LIKES = ["'a%'", "'%b'", "'_'", "'%'", r"'50\\%'", "'a_b'", "'%é%'", "''", "'%X%X%'", "'A%'"]
_DIGITS = ["0", "1", "2", "-1", "-3", "5", "10"]
_UNITS = ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND"]
_UNITS += ["MICROSECOND"]

_ZONES = [
    "'Europe/Berlin'", "'America/New_York'", "'Australia/Lord_Howe'", "'+05:30'", "'GMT-3'",
    "'PST'", "'UTC'",
]  # fmt: skip

TEXTS_OF = {
    "string": ["''", "'a'", "','", "'é'", "'ab'", "'😀'", "'X'"],
    "int": ["0", "1", "-1", "2", "3", "-2", "100"],
    "boolean": ["true", "false"],
}
"""Constants of a type."""

CONSTANTS: dict[tuple[str, str], list[str]] = {
    **{(name, "pattern"): _LIKES for name in ("like", "ilike")},
    **{(name, "escape"): ["'!'", "'/'"] for name in ("like", "ilike")},
    **{(name, "pattern"): _PATTERNS for name in ("rlike", "regexp_replace")},
    **{(name, "pattern"): _PATTERNS for name in ("regexp_extract", "regexp_extract_all")},
    **{(name, "group"): ["0", "1", "2"] for name in ("regexp_extract", "regexp_extract_all")},
    ("regexp_replace", "by"): ["''", "'-'", "'<$0>'", "'$1'", r"r'\$'"],
    ("split", "separator"): [*_PATTERNS, "','", "''"],
    **{(name, "digits"): _DIGITS for name in ("round", "bround", "ceil", "floor")},
    **{(name, "pattern"): _FORMATS for name in ("date_format", "from_unixtime", "unix_timestamp")},
    **{(name, "pattern"): _FORMATS for name in ("to_timestamp", "to_date", "to_timestamp_ntz")},
    **{("convert_timezone", name): _ZONES for name in ("from", "to")},
    **{(name, "zone"): _ZONES for name in ("from_utc_timestamp", "to_utc_timestamp")},
    **{(name, "unit"): [f"'{u}'" for u in _UNITS[-5:]] for name in ("time_trunc", "time_diff")},
    ("to_time", "pattern"): ["'HH:mm:ss'", "'H.mm'", "'h:mm a'", "'yyyy-MM-dd HH:mm:ss'"],
    ("time_bucket", "size"): [
        "interval 7 minutes",
        "interval '1 2' day to hour",
        "interval 5 months",
    ],
    ("time_bucket", "origin"): ["timestamp '2024-02-29 01:02:03.456'"],
    ("date_trunc", "unit"): [f"'{unit}'" for unit in _UNITS],
    ("trunc", "unit"): ["'YEAR'", "'MONTH'", "'Q'", "'WEEK'", "'mon'", "'yy'"],
    ("next_day", "day"): ["'Mon'", "'SU'", "'friday'", "'TH'"],
    **{(name, "unit"): _UNITS for name in ("timestampdiff", "timestampadd")},
    ("element_at", "position"): ["1", "2", "-1", "5"],
    **{(name, "pattern"): _PATTERNS for name in ("regexp_count", "regexp_instr", "regexp_substr")},
    ("encode", "charset"): ["'UTF-8'", "'UTF-16'", "'utf-16le'", "'UTF-32'", "'US-ASCII'"],
    ("getbit", "position"): ["0", "3", "7"],
    ("sha2", "bits"): ["0", "224", "256", "384", "512", "1"],
    ("translate", "characters"): ["'abc'", "'é😀'", "'aa'", "''"],
    ("translate", "by"): ["'xyz'", "'x'", "''", "'日本'"],
    **{(name, "number"): ["'1'", "' -3 '", "'+400'"] for name in ("date_add", "date_sub")},
    ("split_part", "number"): ["1", "2", "-1", "9"],
}
"""Constants that have a meaning, by function and parameter."""

LITERALS: dict[str, list[str]] = {
    "boolean": ["true", "false"],
    "tinyint": ["3Y", "-128Y", "127Y", "0Y"],
    "smallint": ["300S", "-32768S", "7S"],
    "int": ["0", "1", "-1", "2", "7", "-3", "13", "2147483647", "-2147483648", "100"],
    "bigint": ["0L", "5L", "-9L", "9223372036854775807L", "-9223372036854775808L", "4000000000"],
    "float": ["1.5F", "0.1F", "-0.0F", "3e38F", "float('NaN')"],
    "double": ["1.5D", "-0.0D", "1e300", "0.1D", "2.5D", "-7.25D", "1e-7", "double('NaN')"],
    "decimal(10,2)": ["1.25", "-99999999.99", "0.00", "3.5", "12345678.90"],
    "decimal(38,6)": ["0.000001", "99999999999999999999999999999999.999999", "-1.5"],
    "decimal(20,0)": ["99999999999999999999", "-5BD", "12345678901234567890"],
    "string": [
        "'abc'", "''", "'é'", "'Straße'", "' a '", "'1'", "'a,b'", "'😀b'", r"'a\tb'", "'it''s'",
        r"'\\'", '"dq"', r"r'\d'", "'50%'", r"'\u00e9'", "'x' 'y'", "'${a}'", "'-- no'", "'/*'",
    ],
    "binary": ["x'00ff'", "x'c3a9'", "binary('é')", "x''"],
    "date": ["date '2024-02-29'", "date '1969-12-31'", "date '0001-01-01'", "date '9999-12-31'"],
    "timestamp": [
        "timestamp '2024-02-29 23:59:59.999999'", "timestamp '1969-12-31 23:59:59.5'",
        "timestamp '0001-01-01 00:00:00'", "timestamp '2024-03-31T01:30:00Z'",
    ],
    "time(6)": [
        "time '00:00:00'", "time '23:59:59.999999'", "time '12:30:15.5'", "time '07:08'",
    ],
    "timestamp_ntz": [
        "timestamp_ntz '2024-02-29 23:59:59.999999'", "timestamp_ntz '1969-12-31 23:59:59.5'",
        "timestamp_ntz '0001-01-01 00:00:00'", "timestamp_ntz '2024-03-31T02:30:00'",
    ],
    "array<int>": ["array(1, null, 3)", "array(7)", "array(-1, 2147483647)"],
    "array<string>": ["array('a', null, 'é')", "array('')"],
    "map<string,int>": ["map('a', 1, 'é', null)", "map('', -1)", "map_concat()"],
    "map<int,string>": ["map(1, 'a', -1, null)", "map(0, 'é')"],
    "struct<n:int,s:string>": ["named_struct('n', 1, 's', 'x')"],
    "interval day": ["interval 3 day", "interval '-400' day"],
    "interval day to second": [
        "interval '1 02:03:04.5' day to second", "interval -90 minutes", "interval 36 hours",
        "interval 1 week 5 microseconds",
    ],
    "interval year to month": ["interval 14 months", "interval '-1-1' year to month"],
}  # fmt: skip
"""Literals by type."""

_CASTS = (
    "boolean tinyint smallint int bigint float double decimal string binary date timestamp time"
)

OWN: dict[str, list[str]] = {
    "case": [
        "case when {boolean} then {T} else {T} end",
        "case when {boolean} then {T} when {boolean} then {T} end",
    ],
    "case subject": ["case {int} when {int} then {T} when 1 then {T} else {T} end"],
    "is true": ["({boolean} is true)", "({boolean} is not true)"],
    "is false": ["({boolean} is false)", "({boolean} is not false)"],
    "between": [
        "({int} between {bigint} and {int})",
        "({string} not between {string} and {string})",
        "({double} between {double} and {money})",
        "({date} between '2000-01-01' and {date})",
    ],
    "in": [
        "({int} in (1, {int}, null))",
        "({string} not in ('a', 'b', ''))",
        "({double} in ({double}, 0.0D, double('NaN')))",
        "({date} in (date '2024-02-29', {date}))",
        "({bigint} in (1, 2L, {int}))",
    ],
    "||": ["({string} || {int} || {string})", "({array} || {array})", "({date} || {boolean})"],
    "concat": ["concat({string}, {string}, {bigint})", "concat({texts}, {texts})"],
    "concat_ws": ["concat_ws(',', {string}, {string})", "concat_ws({string}, {texts}, {string})"],
    "mask": ["mask({string})", "mask({string}, 'Q', null, 'd', 'o')"],
    "to_char": [
        "to_char({bigint}, '999G999S')", "to_char({double}, '$9990.00MI')",
        "to_char({money}, '0,099.99PR')", "to_char({timestamp}, 'yyyy-MM')",
        "to_char({binary}, 'hex')",
    ],
    "to_binary": ["to_binary({string}, 'base64')", "to_binary({string})"],
    "hash": ["hash({T})", "hash({int}, {T}, {texts})"],
    "xxhash64": ["xxhash64({T})", "xxhash64({string}, {T})"],
    "aes_encrypt": ["aes_encrypt({string}, '1234567890abcdef', 'ECB')"],
    "aes_decrypt": ["aes_decrypt({binary}, '1234567890abcdef')"],
    "hmac": ["hmac({string}, {binary})", "hmac('k', {string}, 'MD5')"],
    "parse_url": ["parse_url(concat('http://h/', {string}), 'PATH')"],
    "format_string": [
        "format_string('%s|%5s', {string}, {int})",
        "format_string('%08.2f %e', {double}, {double})",
        "printf('%,d %x', {bigint}, {int})",
    ],
    "format_number": [
        "format_number({double}, 2)", "format_number({money}, '#,##0.0')",
        "format_number({bigint}, {int})",
    ],
    "conv": ["conv({string}, {int}, {int})", "conv({string}, 16, -10)"],
    "to_number": ["to_number({string}, 'S999.9')", "to_number({string}, '9,990')"],
    "decode": [
        "decode({binary}, 'UTF-8')",
        "decode({int}, 1, {T}, {int}, {T})",
        "decode({string}, 'a', {T}, null, {T}, {T})",
    ],
    "space": ["space(3)", "space(-1)", "space(int({boolean}))"],
    "array_repeat": ["array_repeat({string}, 2)", "array_repeat({int}, int({boolean}))"],
    "get_json_object": [
        "get_json_object({string}, '$.a')", "get_json_object(to_json({struct}), '$.s')"
    ],
    "from_json": ["from_json({string}, 'n int, s int')", "from_json(to_json({struct}), 's int')"],
    "to_json": ["to_json({struct})", "to_json({array})", "to_json({texts})"],
    "from_csv": [
        "from_csv({string}, 'n int, s string')",
        "from_csv(to_csv(named_struct('a', {string}, 'b', {double})), 'a string, b double')",
    ],
    "to_csv": ["to_csv({struct})", "to_csv(named_struct('a', {T}, 'b', {string}))"],
    "schema_of_csv": ["schema_of_csv('1,abc')"],
    "schema_of_json": ["schema_of_json('[1, 2.5]')"],
    "elt": ["elt({int}, {string}, {bigint}, {string})", "elt(2, {string}, {string})"],
    "transform": [
        "transform({array}, x -> {x int: int})",
        "transform({array}, x -> {x int: string})",
        "transform({texts}, (x, k) -> {x string, k int: string})",
        "transform({array}, (x, k) -> {x int, k int: int})",
        "transform({texts}, y -> size(transform({array}, x -> {y string, x int: T})))",
        "transform({matrix}, x -> transform(x, (y, k) -> {x array, y int, k int: int}))",
        "transform({people}, x -> {x person: string})",
        "transform({days}, x -> {x date: date})",
    ],
    "filter": [
        "filter({array}, x -> {x int: boolean})",
        "filter({texts}, (x, k) -> {x string, k int: boolean})",
        "filter({array}, x -> exists({array}, y -> {x int, y int: boolean}))",
        "filter({people}, x -> {x person: boolean})",
        "filter({doubles}, x -> {x double: boolean})",
        "filter({matrix}, x -> exists(x, y -> {x array, y int: boolean}))",
    ],
    **{
        name: [
            f"{name}({{array}}, x -> {{x int: boolean}})",
            f"{name}({{texts}}, x -> {{x string: boolean}})",
        ]
        for name in ("exists", "forall")
    },
    "zip_with": [
        "zip_with({array}, {texts}, (x, y) -> {x int, y string: string})",
        "zip_with({array}, {array}, (x, y) -> {x int, y int: int})",
        "zip_with({people}, {amounts}, (x, y) -> {x person, y money: money})",
    ],
    "aggregate": [
        "aggregate({array}, int({int}), (b, x) -> int({b int, x int: int}))",
        "aggregate({texts}, 0D, (b, x) -> double({b double, x string: T}), b -> {b double: T})",
        "aggregate({array}, true, (b, x) -> {b boolean, x int: boolean})",
        "aggregate({array}, {int} + 0, (b, x) -> b + {x int: int})",
        "aggregate({days}, {struct}, (b, x) -> {b struct, x date: struct})",
    ],
    "array_sort": [
        "array_sort({array})",
        "array_sort({texts})",
        "array_sort({array}, (l, r) -> int({l int, r int: int}))",
    ],
    "map_filter": [
        "map_filter({counts}, (k, v) -> {k string, v int: boolean})",
        "map_filter({names}, (k, v) -> {k int, v string: boolean})",
    ],
    "transform_values": [
        "transform_values({counts}, (k, v) -> {k string, v int: int})",
        "transform_values({names}, (k, v) -> {k int, v string: string})",
    ],
    "transform_keys": [
        "transform_keys({counts}, (k, v) -> {k string, v int: string})",
        "transform_keys({names}, (k, v) -> {k int, v string: int})",
    ],
    "map_zip_with": [
        "map_zip_with({counts}, {counts}, (k, v, w) -> {k string, v int, w int: int})",
        "map_zip_with({names}, {names}, (k, v, w) -> {k int, v string, w string: string})",
    ],
    "[]": [
        "({array})[{int}]", "({texts})[0]", "({struct})['s']",
        "({counts})[{string}]", "({names})[{bigint}]", "({names})[1]",
    ],
    ".": [
        "({struct}).n", "({struct}).s", "({counts}).a",
        "({deep}).who", "({deep}).days", "({people}).s",
    ],
    "map": ["map('a', {T}, 'b', {T})", "map(1, {T}, 0, {T}, -1, null)"],
    "map_concat": ["map_concat({counts})", "map_concat({names})"],
    "map_from_entries": ["map_from_entries(map_entries({names}))"],
    "map_from_arrays": ["map_from_arrays(array(1, -1), array({T}, {T}))"],
    "str_to_map": ["str_to_map(replace({string}, ','))", "str_to_map({string}, 'never', 'a')"],
    "array_insert": ["array_insert({array}, 2, {int})", "array_insert({texts}, -3, {string})"],
    "arrays_zip": ["arrays_zip(array({int}), {texts})"],
    "sequence": [
        "sequence(1, 5)", "sequence(5, -3, -2)", "sequence(0, pmod({int}, 5))",
        "sequence(d, greatest(d, d + interval 3 day), interval 1 day)",
    ],
    "named_struct": ["named_struct('n', {int}, 's', {string})", "named_struct('A b', {T})"],
    "struct": ["struct({int}, {string})"],
    "date_part": [
        f"extract({field} from {{timestamp}})"
        for field in ("year", "month", "day", "hour", "minute", "second", "week", "dow", "doy")
    ] + ["date_part('quarter', {date})"],
    "timestampdiff": [
        f"timestampdiff({unit}, {{timestamp}}, {{timestamp}})" for unit in _UNITS
    ],
    "timestampadd": [
        f"timestampadd({unit}, {{bigint}}, {{{time}}})"
        for unit in _UNITS for time in ("timestamp", "ntz")
    ],
    **{
        f"{attempt}make_timestamp{of}": [
            f"{attempt}make_timestamp{of}({{int}}, 2, 28, {{int}}, 7, {{money}}{zone})"
            for zone in ("", ", 'Europe/Berlin'")[: 1 if of == "_ntz" else 2]
        ]
        for attempt in ("", "try_")
        for of in ("", "_ltz", "_ntz")
    },
    "make_date": ["make_date({int}, 2, {int})", "make_date({int}, {int}, {int})"],
    "substring": ["substring({string}, {int}, {int})", "substring({string} from 2 for {int})"],
    "trim": ["trim({string})", "trim(both 'a ' from {string})", "trim({string}, {string})"],
    "repeat": ["repeat({string}, 3)", "repeat({string}, -1)"],
    "lpad": ["lpad({string}, 7, {string})", "lpad({string}, 3)", "lpad({string}, -1, 'x')"],
    "rpad": ["rpad({string}, 7, {string})", "rpad({string}, 3)"],
    "raise_error": ["if({int} is null or true, {T}, raise_error({string}))"],
    "assert_true": ["(assert_true({boolean} or true) is null)"],
    "rand": ["(rand() between 0 and 1)", "(random(3) < 2)"],
    "random": ["(random() < 1)"],
    "randn": ["(abs(randn()) < 40)"],
    "uniform": ["(uniform(1, 3, 4) in (1, 2))"],
    "uuid": ["length(uuid())"],
    "randstr": ["length(randstr(3, 0))"],
    "shuffle": ["size(shuffle({array}))"],
    "current_timestamp": ["current_timestamp() > timestamp '2024-01-01 00:00:00'"],
    "current_time": ["current_time() >= {clock}"],
    "make_dt_interval": ["make_dt_interval({int}, 7) > {time}"],
    "make_ym_interval": ["make_ym_interval({int}, 7) > {months}"],
    "make_time": ["make_time({int}, {int}, {money})", "make_time(7, {int}, {int})"],
    "time_from_seconds": [
        f"time_from_seconds({{{type}}})" for type in ("int", "bigint", "money", "double")
    ],
    "localtimestamp": ["localtimestamp() > {ntz}"],
    "current_date": ["current_date() > date '2024-01-01'"],
    **{name: [f"{name}({{T}})"] for name in _CASTS.split()},
}  # fmt: skip
"""Forms that a signature does not say, by function; `{int}` is an expression of that type."""
