"""Tests of pipelines whose sources are idle as a whole."""

from __future__ import annotations

import pytest

from tests.support.cli.command_line import Headrace
from tests.support.cli.tested_pipelines import check_passes

HEAD = """
name: clicks
sources:
  clicks:
    files: {path: in}
    format: json
    schema: {user: bigint, at: timestamp, v: bigint}
    event_time: at
    watermark: {delay: 5s}
steps:
  positive: {from: clicks, where: v > 0}
  pairs:
    join:
      left: {from: LEFT, as: a}
      right: {from: RIGHT, as: b}
      on: a.user = b.user
      within: [-20s, 20s]
    select: {user: a.user, v: a.v}
sinks:
  out: {from: pairs, console: {}}
"""


@pytest.mark.parametrize("sides", [("positive", "clicks"), ("clicks", "positive")])
def test_a_join_of_a_source_with_itself_loses_no_rows_after_the_source_was_idle(
    headrace: Headrace, sides: tuple[str, str]
) -> None:
    head = HEAD.replace("LEFT", sides[0]).replace("RIGHT", sides[1])
    check_passes(
        headrace,
        """
        given:
          - splits: {clicks: [[{user: 1, at: "2026-01-01 00:00:00", v: 1}], []]}
          - idle: {clicks: [0, 1]}
          - splits:
              clicks:
                - - {user: 2, at: "2026-01-01 01:00:00", v: 2}
                  - {user: 3, at: "2026-01-01 01:00:30", v: 3}
                - []
          - idle: {clicks: [0, 1]}
          - splits:
              clicks:
                - []
                - - {user: 4, at: "2026-01-01 02:00:00", v: 4}
                  - {user: 5, at: "2026-01-01 02:00:30", v: 5}
        expect:
          pairs:
            - {user: 1, v: 1}
            - {user: 2, v: 2}
            - {user: 3, v: 3}
            - {user: 4, v: 4}
            - {user: 5, v: 5}
        """,
        head=head,
    )


def test_a_split_that_has_ceased_to_be_idle_holds_the_watermark_after_a_restart(
    headrace: Headrace,
) -> None:
    check_passes(
        headrace,
        """
        given:
          - checkpoint
          - idle: {clicks: [0, 1, 2]}
          - watermark: {clicks: "2026-01-01 00:00:04"}
          - splits: {clicks: [[], [], [{user: 1, at: "2026-01-01 00:00:05", v: 1}]]}
          - checkpoint
          - splits:
              clicks:
                - []
                - [{user: 2, at: "2026-01-01 00:00:12", v: 1}]
                - [{user: 4, at: "2026-01-01 00:00:19", v: 1}]
          - restart
        expect:
          pairs: [{user: 1, v: 1}, {user: 2, v: 1}, {user: 4, v: 1}]
        """,
        head=HEAD.replace("LEFT", "clicks").replace("RIGHT", "positive"),
    )
