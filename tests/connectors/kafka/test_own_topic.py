"""A pipeline that writes to a topic that it reads: such a circle is warned of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.support.cli.command_line import Headrace
from tests.support.kafka.broker import Broker
from tests.support.kafka.topics import Record, Topics

PIPELINE = """name: circle
sources:
  tries:
    kafka: {brokers: "BROKER", topic: TOPIC, stop: latest}
    schema: {n: bigint}
steps:
  raised: {from: tries, select: {n: n + 1}}
  parts: {from: raised, route: {again: n < 3}}
sinks:
  back:
    from: parts.again
    kafka: {brokers: "BROKER", topic: TOPIC}
  done: {from: parts.else, stdout: {}}
"""


def test_a_circle_through_a_topic_is_warned_of_and_runs(
    headrace: Headrace, broker: Broker, topics: Topics, fresh: Callable[..., str]
) -> None:
    topic = topics.create(fresh("tries"))
    topics.write(topic, [Record(b'{"n":0}')])
    Path("p.yaml").write_text(PIPELINE.replace("BROKER", broker.address).replace("TOPIC", topic))
    warning = (
        f'p.yaml:12:5: warning: sink "back": the source "tries" reads what is written here: '
        f'topic "{topic}", so rows can go round without end'
    )
    for command in (("validate",), ("run", "--fresh")):
        ran = headrace(command[0], "p.yaml", *command[1:])
        assert ran.status == 0, ran.err
        assert warning in ran.out + ran.err
        assert "if this is intended, a filter has to end each round" in ran.out + ran.err
    assert topics.values(topic) == [b'{"n":0}', b'{"n":1}']
