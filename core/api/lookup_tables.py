"""The contract of a lookup table, which finds rows by their keys."""

from __future__ import annotations

from typing import Protocol

import polars as pl


class LookupTable(Protocol):
    """The table of a lookup in a run. One is shared by all subtasks of its step."""

    @property
    def max_keys_per_call(self) -> int:
        """The largest number of keys in a call of `find`."""
        ...

    async def check(self) -> None:
        """Check that the table exists with all its columns. Raises ConnectorError."""
        ...

    async def find(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of these keys, which are distinct and not null.

        The first column is `LOOKUP_KEY_INDEX`, the index in `keys` of each row's key; then come the
        added columns, with their types. Keys without a row are left out. The call is cancelled when
        it takes too long. Raises ConnectorError.
        """
        ...

    async def close(self) -> None:
        """Release files and connections."""
        ...


LOOKUP_KEY_INDEX = "__at"
"""The column with the index of each row's key, in the result of a lookup table."""


ROW_ERROR = "__error"
"""The optional column with the error of each row, null for valid rows, in such a result."""
