"""A schema guessed from a data file: what is found, what is doubted, what is refused."""

import gzip
import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
import yaml

from headrace.connectors.guess.file_head import MAX_BYTES, MAX_ROWS
from headrace.core.types.type_parser import parse_type
from tests.support.cli.command_line import Headrace, Ran


def json_lines(*rows: object) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def guess(headrace: Headrace, name: str, content: bytes) -> Ran:
    Path(name).write_bytes(content)
    return headrace("schema", "--of", name)


def found(ran: Ran) -> dict[str, str]:
    """The guessed columns, as YAML reads them and each a type."""
    assert ran.status == 0, ran.err
    schema: dict[str, str] = yaml.safe_load(ran.out)["schema"]
    return {name: str(parse_type(text)[0]) for name, text in schema.items()}


@pytest.mark.parametrize(
    ("values", "type"),
    [
        ([1, -(2**63) + 1], "bigint"),
        ([1, 2**63], "decimal(19,0)"),
        ([10**40], "string"),
        ([1, 2.5], "double"),
        ([1.5, "NaN", "-Infinity"], "double"),
        ([True, None], "boolean"),
        ([True, 1], "string"),
        (["2024-02-29"], "date"),
        (["2024-02-30"], "string"),
        (["2024-02-29T08:00:00Z", "2024-02-29 08:00:00.123456+02:00"], "timestamp"),
        (["2024-02-29T25:00:00Z"], "string"),
        (["2024-02-29", "2024-02-29T08:00:00Z"], "string"),
        ([1, "a"], "string"),
        ([None], "string"),
        ([[1, 2.5], [], None], "array<double>"),
        ([[]], "array<string>"),
        ([{}], "string"),
        ([{"a": 1}, {"b c": [None]}], "struct<a:bigint,`b c`:array<string>>"),
        ([{"a": 1}, [1]], "string"),
        ([{f"user_{n}": n} for n in range(300)], "string"),
    ],
)
def test_the_narrowest_type_for_all_values(
    headrace: Headrace, values: list[object], type: str
) -> None:
    content = json_lines(*({"x": value} for value in values))
    assert found(guess(headrace, "a.jsonl", content)) == {"x": type}


@pytest.mark.parametrize(
    ("many", "few", "type", "doubt"),
    [
        (1, ["n/a"], "bigint", "text in line 3; bad records, see on_error"),
        (2.5, ["n/a", True], "double", "booleans in line 4; text in line 3; bad records"),
        (1, ["a", "b", "c", "d", "e"], "bigint", "text in lines 3, 4, 5 and 2 more; bad records"),
        ("2024-02-29T08:00:00Z", ["2024-02-29"], "timestamp", "dates in line 3\n"),
        (1, ["NaN"], "double", ""),
        (1, [2.5], "double", ""),
        ("x", [1], "string", "numbers and text here"),
        (True, [[1]], "boolean", "arrays in line 3; bad records"),
        ([1], [[1], ["x"]], "array<bigint>", "text in line 4; bad records"),
        ({"a": 1}, [{"a": "x"}], "struct<a:bigint>", "a: text in line 3; bad records"),
    ],
)
def test_a_few_values_of_another_type_are_named_by_line(
    headrace: Headrace, many: object, few: list[object], type: str, doubt: str
) -> None:
    rows = [many, None, *few, *[many] * (10 * len(few))]
    ran = guess(headrace, "a.jsonl", json_lines(*({"x": value} for value in rows)))
    assert found(ran) == {"x": type}
    assert ran.out.partition("  # ")[2].startswith(doubt)
    less = guess(headrace, "a.jsonl", json_lines({"x": 1}, {"x": "n/a"}, *[{"x": 1}] * 7))
    assert found(less) == {"x": "string"}


def test_a_few_cells_of_another_type_are_named_by_line(headrace: Headrace) -> None:
    rows = b"".join(b'%d,%d,"a\nb"\n' % (n, 1000 + n) for n in range(20))
    ran = guess(headrace, "a.csv", b"n,zip,s\n" + rows + b"none,0123,c\n")
    assert found(ran) == {"n": "bigint", "zip": "string", "s": "string"}
    assert "  n: bigint  # text in line 42; bad records, see on_error\n" in ran.out


def test_nesting_without_end_is_text() -> None:
    from headrace.connectors.guess.type_evidence import TypeEvidence

    value: object = 1
    for _ in range(500):
        value = [value]
    seen = TypeEvidence()
    seen.add(value, 1)
    assert "string" in str(seen.type)


def test_names_are_quoted_where_yaml_would_misread_them(headrace: Headrace) -> None:
    names = ["on", "yes", "1", "1.5", "null", "~", "a b", "a: b", "a #b", "#", "été", '"', "- x"]
    content = json_lines(dict.fromkeys(names, 1))
    assert list(found(guess(headrace, "a.jsonl", content))) == names


def test_the_block_is_what_was_promised(headrace: Headrace) -> None:
    ran = guess(headrace, "a.jsonl", json_lines({"id": 1, "on": "x", "n": None}))
    assert ran.out == 'schema:\n  id: bigint\n  "on": string\n  n: string  # only nulls here\n'
    assert ran.err.startswith("guessed from all 1 rows of a.jsonl\n")
    assert "add `not null`" in ran.err


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_csv_cells_are_read_for_what_they_are(headrace: Headrace, name: str) -> None:
    content = (
        b'id,zip,price,ok,day,"a ""b"""\r\n1,007,1.5,true,2024-01-02,"x\ny"\r\n2,,,false,,\r\n'
    )
    content = gzip.compress(content) if name.endswith(".gz") else content
    assert found(guess(headrace, name, content)) == {
        "id": "bigint",
        "zip": "string",
        "price": "double",
        "ok": "boolean",
        "day": "date",
        'a "b"': "string",
    }


def test_another_delimiter_is_said(headrace: Headrace) -> None:
    ran = guess(headrace, "a.csv", b"a;b\n1;2\n")
    assert found(ran) == {"a": "bigint", "b": "bigint"}
    assert 'csv: {delimiter: ";"}' in ran.err


def test_rows_that_do_not_fit_are_left_out_and_counted(headrace: Headrace) -> None:
    ran = guess(headrace, "a.csv", b"a,b\n1,2\n1,2,3\nx\n")
    assert found(ran) == {"a": "bigint", "b": "bigint"}
    assert "row 3 has 3 fields, the header 2 (and 1 more): left out" in ran.err
    ran = guess(headrace, "a.jsonl", b'{"a": 1}\n{"a": NaN}\n[]\n')
    assert found(ran) == {"a": "bigint"}
    assert "line 2 is not a JSON object (and 1 more): left out" in ran.err
    ran = guess(headrace, "a.jsonl", b'{"a": 1}\n\n{"b":\n2}\n{"a": 2}\n')
    assert found(ran) == {"a": "bigint"}
    assert "line 3 is not a JSON object (and 1 more): left out" in ran.err


def test_zstd_is_read(headrace: Headrace) -> None:
    pl.LazyFrame({"x": [1]}).sink_ndjson("a.jsonl.zst", compression="zstd")
    assert found(headrace("schema", "--of", "a.jsonl.zst")) == {"x": "bigint"}


def test_parquet_says_itself_what_it_holds(headrace: Headrace) -> None:
    pl.DataFrame(
        {
            "small": pl.Series([1], dtype=pl.UInt8),
            "huge": pl.Series([1], dtype=pl.UInt64),
            "money": [Decimal("1.10")],
            "at": [datetime(2024, 1, 2)],
            "tags": [["a"]],
            "who": [{"name": "a", "born": date(2000, 1, 1)}],
            "took": [timedelta(1)],
        }
    ).write_parquet("a.parquet")
    ran = headrace("schema", "--of", "a.parquet")
    assert found(ran) == {
        "small": "smallint",
        "huge": "decimal(20,0)",
        "money": "decimal(38,2)",
        "at": "timestamp",
        "tags": "array<string>",
        "who": "struct<name:string,born:date>",
        "took": "interval day to second",
    }
    assert "no rows were read" in ran.err


def test_the_number_of_rows_read_is_limited(headrace: Headrace) -> None:
    content = b'{"x": 1}\n' * MAX_ROWS + b'{"x": "a"}\n'
    ran = guess(headrace, "a.jsonl", content)
    assert found(ran) == {"x": "bigint"}
    assert f"the first {MAX_ROWS:,} rows" in ran.err


def test_the_number_of_bytes_read_is_limited(headrace: Headrace) -> None:
    line = json_lines({"x": "a" * (MAX_BYTES // 4)})
    ran = guess(headrace, "a.jsonl", line * 6)
    assert "the first 3 rows" in ran.err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b"", "a.jsonl is empty: a schema is guessed from the rows of a file"),
        ("a.jsonl", b" \n\n", "a.jsonl is empty: a schema is guessed from the rows of a file"),
        ("a.json", b'[{"a": 1}]', "a JSON array, wanted one JSON object a line: jq -c '.[]' a.js"),
        ("a.json", b'{\n"a": 1\n}', "over several lines, wanted one JSON object a line: jq -c . "),
        ("a.json", b"hello\n", "a.json, line 1: wanted one JSON object a line, got hello"),
        ("a.json", b"{}\n", "the objects in a.json have no fields"),
        ("a.json", b'{"a": 1}\0', "a.json is binary, wanted .jsonl, .json, .csv or .parquet"),
        ("a.csv", b"a,b\n\xff,1\n", "a.csv is not UTF-8: line 2 has the byte 0xff"),
        ("a.csv", b"a,b\n", "a.csv has a header and no rows"),
        ("a.csv", b"a,a\n1,2\n", 'a.csv: two columns are named "a"'),
        ("a.csv", b"a,\n1,2\n", "a.csv: column 2 has no name in the header"),
        ("a.parquet", b"a,b\n1,2\n", "a.parquet is not a Parquet file: it does not start with PA"),
        ("a.parquet", b"PAR1 and no more", "a.parquet is a damaged Parquet file"),
        ("a.log", b"hello\n", "cannot detect the format of a.log, wanted .jsonl, .json, .csv or"),
        ("a.jsonl.gz", b"\x1f\x8bxxxxxxxxxxxxxxx", "a.jsonl.gz cannot be decompressed"),
        ("a.jsonl.zst", b"\x28\xb5\x2f\xfdxxxxxxxx", "a.jsonl.zst cannot be decompressed"),
        ("a.jsonl", b"x" * (MAX_BYTES + 1), "the first line of a.jsonl is longer than 8 MB"),
    ],
)
def test_what_no_schema_can_be_guessed_from(
    headrace: Headrace, name: str, content: bytes, message: str
) -> None:
    ran = guess(headrace, name, content)
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_a_missing_file_and_a_folder_are_named(headrace: Headrace) -> None:
    ran = headrace("schema", "--of", "a.json")
    assert (ran.status, ran.err) == (2, "cannot read a.json: no such file or directory\n")
    ran = headrace("schema", "--of", ".")
    assert (ran.status, ran.err) == (2, ". is a folder, wanted one of its files\n")
