"""The worked example of docs/savepoints.md is the savepoint that the tests keep."""

import json
import re
from typing import Any

from headrace.state.savepoints.document import FileDocument, StateDocument, StepStateDocument
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "savepoints.md").read_text("utf-8")
SAVEPOINT = json.loads((ROOT / "tests/state/savepoints/stored/v1/savepoint.json").read_bytes())


def shown() -> Any:
    """The page's JSON."""
    (block,) = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return json.loads(block)


def is_part(some: Any, whole: Any) -> bool:
    """Whether all that is said is in the other, which may say more."""
    if isinstance(some, dict):
        return all(name in whole and is_part(value, whole[name]) for name, value in some.items())
    if isinstance(some, list):
        return len(some) <= len(whole) and all(map(is_part, some, whole))
    return bool(some == whole)


def test_the_example_is_a_savepoint() -> None:
    assert is_part(shown(), SAVEPOINT)
    assert not is_part({"format": 2}, SAVEPOINT)


def test_every_member_is_explained() -> None:
    """In the page's tables, or in the text beside them."""
    members = {
        *SAVEPOINT,
        *StepStateDocument.__struct_fields__,
        *StateDocument.__struct_fields__,
        *FileDocument.__struct_fields__,
    }
    assert not [name for name in members if f"`{name}`" not in PAGE and f'"{name}"' not in PAGE]


def test_all_members_are_in_the_example_or_the_table() -> None:
    assert shown().keys() <= SAVEPOINT.keys()
    assert set(SAVEPOINT) - {"checksum"} <= set(re.findall(r"`(\w+)`", PAGE))


def test_the_example_shows_files_that_are_there() -> None:
    for path in re.findall(r"`?(states/\w+/\w+/[\d-]+\.parquet)", PAGE):
        assert (ROOT / "tests/state/savepoints/stored/v1" / path).exists(), path
