"""The queries of `with` that nothing reads."""

from __future__ import annotations

from dataclasses import replace

from headrace.core.sql.syntax_tree import NamedQuery, Query, list_table_names


def split_unread(query: Query) -> tuple[Query, list[NamedQuery]]:
    """Return a query without its queries of `with` that nothing reads, and these.

    The sources and steps that only they read are not needed.
    """
    read = {each.name for each in list_table_names(replace(query, named=()))}
    kept, unread = list[NamedQuery](), list[NamedQuery]()
    for each in reversed(query.named):
        if each.name.name in read:
            kept.insert(0, each)
            read |= {table.name for table in list_table_names(each.query)}
        else:
            unread.insert(0, each)
    return replace(query, named=tuple(kept)), unread
