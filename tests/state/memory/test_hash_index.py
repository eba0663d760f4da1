"""The index of a table: from hashes to rows, also where hashes meet."""

from __future__ import annotations

import random

import polars as pl
import pytest

from headrace.state.memory.hash_table import HashTable


@pytest.mark.parametrize(("bits", "most"), [(1, 40), (5, 40), (63, 40), (3, 200), (63, 200)])
def test_keys_are_found_where_they_were_put_however_few_hashes_there_are(
    bits: int, most: int
) -> None:
    luck = random.Random(bits)
    index, model = HashTable(), dict[int, int]()
    log: list[int] = []
    for _ in range(150):
        keys = luck.sample(range(300), luck.randint(1, most))
        column = pl.Series(keys)
        hashes = ((column * 7919 + 13) & ((1 << bits) - 1)).cast(pl.UInt64)
        rows = pl.Series(log, dtype=pl.Int64)
        slots = index.find(hashes, lambda asked, at: column[asked] == rows[at])  # noqa: B023
        known = slots.is_not_null()
        found = dict(zip(column.filter(known), index.get_rows(slots.filter(known)), strict=True))
        assert found == {key: model[key] for key in keys if key in model}
        if luck.random() < 0.3:
            index.remove(slots.filter(known))
            for key in keys:
                model.pop(key, None)
        else:
            new = pl.int_range(len(log), len(log) + len(keys), dtype=pl.Int32, eager=True)
            index.replace(slots.filter(known), new.filter(known))
            index.insert(hashes.filter(~known), new.filter(~known))
            model |= {key: len(log) + at for at, key in enumerate(keys)}
            log.extend(keys)
        assert index.key_count == len(model)
        assert sorted(index.get_rows(index.list_occupied())) == sorted(model.values())


def test_rows_are_renumbered_in_their_order() -> None:
    index = HashTable()
    hashes = pl.Series([5, 6, 7, 8], dtype=pl.UInt64)
    index.insert(hashes, pl.Series([40, 10, 30, 20], dtype=pl.Int32))
    assert index.renumber().to_list() == [10, 20, 30, 40]
    slots = index.find(hashes, lambda asked, rows: asked == asked)
    assert index.get_rows(slots).to_list() == [3, 0, 2, 1]
