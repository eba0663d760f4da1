"""The language reference has every key, type and default."""

from collections.abc import Iterator

from headrace.connectors.registry import REGISTRY
from headrace.core.pipeline import build_reference
from headrace.core.pipeline.clause_rules import STEP_RULES
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.pipeline.model import SinkKeys, SourceKeys, StepKeys
from headrace.core.pipeline.settings import RESTART_MODELS, Settings
from headrace.core.pipeline.unsupported import CLAUSES

PAGE = build_reference(REGISTRY)


def models() -> Iterator[type[DocumentModel]]:
    """Yield all models of a document, including nested ones."""
    ends = [side for c in REGISTRY.values() for side in (c.source, c.sink) if side]
    todo: list[type[DocumentModel]] = [
        Settings,
        *RESTART_MODELS.values(),
        SourceKeys,
        StepKeys,
        SinkKeys,
    ]
    todo += [side.options for side in ends]
    while todo:
        model = todo.pop()
        yield model
        todo += filter(None, (field.nested for field in model.model_fields.values()))


def test_every_key_has_a_row() -> None:
    seen = set()
    for model in models():
        seen.add(model.__name__)
        for key in model.fields_by_key():
            # A model with one key may be written inline: `{to: name}`.
            assert f"| `{key}` |" in PAGE or f"`{{{key}: " in PAGE, (model, key)
    assert {"Checkpoint", "Watermark", "Map", "Roll", "JsonOptions", "CsvOptions"} <= seen


def test_rows_say_what_is_wanted_and_the_default() -> None:
    row = "| `key_groups` | a whole number from 1 to 32768 | `128` |"
    assert row in PAGE
    assert "| `every` | a duration such as 10s, or never | `10s` |" in PAGE


def test_every_row_of_a_table_has_as_many_cells() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert rows
    assert all(row.count("|") in (3, 4, 5) for row in rows)


def test_the_order_of_clauses_is_that_of_the_table() -> None:
    steps = PAGE.partition("## Steps")[2]
    order = [steps.index(f"\n| `{clause}` |") for clause in ("from", *CLAUSES)]
    assert order == sorted(order)


def test_what_is_not_built_is_listed() -> None:
    assert "`avro`" in PAGE.partition("## Not built yet")[2]


def test_the_table_of_clauses_has_what_each_needs_and_excludes() -> None:
    assert "| `having` | `aggregate` or `match` |  |\n" in PAGE
    key = "| `key` | `aggregate` or `top` or `apply` or `over` or `process` or `match` | "
    assert key in PAGE
    for rule in STEP_RULES:
        for clause in rule.keys.split(", "):
            assert "." in clause or PAGE.count(f"| `{clause}` |") > 1, clause
