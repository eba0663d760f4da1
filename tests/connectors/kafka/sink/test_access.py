"""Access that is denied, on a broker that looks at who writes what."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from headrace.connectors.registry import REGISTRY
from headrace.core.api.failures import ConnectorError
from headrace.core.pipeline.loader import load_pipeline
from headrace.core.plan import nodes
from tests.support.kafka.open_sink import NAME, ROWS, opened, rows, run
from tests.support.kafka.secured_broker import OTHER, OTHER_PASSWORD, USER, Secured
from tests.support.kafka.topics import Topics, settle

Fresh = Callable[..., str]


def only(secured: Secured, user: str, what: ResourceType, name: str, may: AclOperation) -> None:
    """Grant a right to one user only, and no other right to anyone."""
    by_start = ResourcePatternType.PREFIXED
    to = (f"User:{user}", "*", may, AclPermissionType.ALLOW)
    admin = AdminClient({"bootstrap.servers": secured.broker.address})
    settle(admin.create_acls([AclBinding(what, name, by_start, *to)]))


def described(secured: Secured, folder: Path, topic: str, delivery: str) -> nodes.Sink:
    """A sink of the other user."""
    path = folder / "p.yaml"
    who = f"protocol: sasl_plaintext, mechanism: PLAIN, username: {OTHER}"
    path.write_text(
        "name: t\nsources: {s: {stdin: {}, schema: {k: string, n: bigint}}}\nsinks:\n  out:\n"
        f"    from: s\n    kafka: {{brokers: '{secured.at('SASL_PLAINTEXT')}', topic: {topic}, "
        f"delivery: {delivery}, security: {{{who}, password: '${{secret:P}}'}}}}\n"
    )
    found = load_pipeline(path, REGISTRY, env={"HEADRACE_SECRET_P": OTHER_PASSWORD})
    assert found.pipeline.sinks, found.problems
    options = found.pipeline.sinks["out"].options
    return nodes.Sink(NAME, "s", "kafka", options, nodes.Format("json", None), 1)


def refused(sink: nodes.Sink, job: str) -> ConnectorError:
    """Return the error of a write by the other user."""

    async def work() -> None:
        async with opened((sink, ROWS), job=job) as out:
            writer = out.writer()
            await writer.write(rows(10))
            await writer.prepare()

    with pytest.raises(ConnectorError) as error:
        run(work())
    assert OTHER_PASSWORD not in f"{error.value.message} {error.value.hint}"
    assert error.value.is_final
    return error.value


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize("user", [USER, OTHER])
def test_a_topic_that_may_not_be_written_is_named(
    secured: Secured, fresh: Fresh, tmp_path: Path, user: str, delivery: str
) -> None:
    topic = Topics(secured.broker.address).create(fresh())
    # The other user sees the one topic, and does not see the other.
    only(secured, user, ResourceType.TOPIC, topic, AclOperation.DESCRIBE)
    error = refused(described(secured, tmp_path, topic, delivery), fresh())
    assert error.message == f'cannot write to topic "{topic}": access is denied'
    assert "right to write" in error.hint


def test_denied_transactional_ids_are_reported(
    secured: Secured, fresh: Fresh, tmp_path: Path
) -> None:
    topic = Topics(secured.broker.address).create(fresh())
    job = fresh("job").replace("-", "")
    only(secured, USER, ResourceType.TRANSACTIONAL_ID, f"headrace-{job}", AclOperation.ALL)
    error = refused(described(secured, tmp_path, topic, "exactly_once"), job)
    assert "access to transactional ids is denied" in error.message
    assert f"headrace-{job}-out-0-0" in error.message
    assert "transactional ids headrace-*" in error.hint
