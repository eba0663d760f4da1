"""URLs in messages: credentials never appear, however they are written."""

from __future__ import annotations

import pytest

from headrace.connectors.tables.urls import Url, mask_secrets, mask_url
from headrace.core.pipeline.text import Text


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql+psycopg://me:sesame@host:5432/db", "postgresql+psycopg://****@host:5432/db"),
        ("postgresql+psycopg://me:se/same@host/db", "postgresql+psycopg://****"),
        ("postgresql+psycopg://me:se?same@host/db", "postgresql+psycopg://****"),
        ("postgresql+psycopg://me:se#same@host/db", "postgresql+psycopg://****"),
        ("postgresql+psycopg://me:se@same@host/db", "postgresql+psycopg://****@host/db"),
        ("postgresql://host/db?password=sesame", "postgresql://host/db?****"),
        ("postgresql://me:sesame", "postgresql://****"),
        ("https://sesame@h/", "https://****@h/"),
        ("https://h/a/{id}?code=sesame", "https://h/a/{id}?****"),
        ("https://h/?credential=sesame", "https://h/?****"),
        ("https://h/#token=sesame", "https://h/#****"),
        ("https://[::1]:80/{id}", "https://[::1]:80/{id}"),
        ("http://h:{port}/{id}", "http://h:{port}/{id}"),
        ("sqlite:///dir/c.db", "sqlite:///dir/c.db"),
        ("what is no URL", "****"),
    ],
)
def test_only_where_something_is_is_shown(url: str, said: str) -> None:
    assert mask_url(url) == said
    assert str(Url(Text(url))) == said
    assert str(Url(Text(url, secret=True))) == "****"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:se%2Fsame@host/db",
        "postgresql://me:se/same@host/db",
        "http://h/{id}?q=se%2fsame{id}",
        "http://se%2Fsame@h/{id}",
    ],
)
def test_what_others_say_is_masked_in_each_way_it_can_be_written(url: str) -> None:
    for said in ("no se/same here", "no se%2Fsame5 here"):
        assert "same" not in mask_secrets(said, Url(Text(url)).secrets)
