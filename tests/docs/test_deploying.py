"""The files of deploy/ and their page name what is there: options, paths, metrics, statuses."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from docs.snippets import ROOT
from docs.write import page
from headrace.cli.main import HELP_OPTIONS, headrace
from headrace.cli.metrics.metric_table import METRICS
from headrace.cli.pipeline_file import check_pipeline

DEPLOY = ROOT / "deploy"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())
EXAMPLES = [DEPLOY / "kubernetes" / name for name in ("volume.yaml", "bucket.yaml")]
UNIT = (DEPLOY / "systemd" / "headrace@.service").read_text("utf-8")
IMAGE = (DEPLOY / "Dockerfile").read_text("utf-8")
PAGE = (ROOT / "docs" / "deploying.md").read_text("utf-8")

RETRIED = {1, 130}
"""Behind these another start may help: a failure, a process that was ended from outside."""
ONCE = ("--fresh", "--from-savepoint", "--from-checkpoint", "--reset-state", "--allow-lost-state")


def documents(path: Path) -> dict[str, Any]:
    """What a file of Kubernetes has, by kind."""
    return {one["kind"]: one for one in yaml.safe_load_all(path.read_text("utf-8"))}


def container(path: Path) -> dict[str, Any]:
    """The container of the one Pod."""
    (found,) = documents(path)["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def calls(text: str) -> Iterator[list[str]]:
    """Each call of headrace, in shell blocks and in the text: the words behind its name."""
    for call in re.findall(r"`headrace ([a-z][^`]*)`", text):
        yield call.split()
    for block in re.findall(r"^ *```sh\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        joined = re.sub(r"\\\n *", "", block)
        for call in re.findall(r"(?:^|(?<!-u)[ ;/])headrace ([a-z].*)$", joined, re.MULTILINE):
            yield re.sub(r"[\"']|\$\(.*?\)| [<#|].*", "", call).split()


def parsed(words: Sequence[str]) -> str:
    """The command of headrace that takes these words; raises UsageError where none does."""
    command: click.Command = headrace
    rest, name = [*words], "headrace"
    while isinstance(command, click.Group):
        name = rest.pop(0)
        found = command.commands.get(name)
        assert found is not None, f"no command {name}: {' '.join(words)}"
        command = found
    # A command keeps the option for help that it is first asked with: the page of all shows it.
    command.make_context(name, rest, help_option_names=HELP_OPTIONS).close()
    return name


def test_the_commands_of_the_page_are_there() -> None:
    names = {parsed(words) for words in calls(PAGE)}
    assert names == {"jobs", "run", "validate", "diff", "savepoint", "stop", "rescale"}


@pytest.mark.parametrize("option", ["--parallel", "--from-savepoints"])
def test_an_option_that_is_not_there_is_found(option: str) -> None:
    (words,) = calls(f"```sh\nsudo headrace run a.yaml {option} 3\n```\n")
    with pytest.raises(click.NoSuchOption):
        parsed(words)


def test_what_is_started_again_and_again_is_a_run_without_what_is_for_once() -> None:
    (unit,) = re.findall(r"^ExecStart=\S+/headrace (.*) \$HEADRACE_OPTIONS$", UNIT, re.MULTILINE)
    (image,) = re.findall(r"^CMD (\[.*\])$", IMAGE, re.MULTILINE)
    starts = [unit.split(), yaml.safe_load(image), *(container(each)["args"] for each in EXAMPLES)]
    for words in starts:
        assert parsed(words) == "run"
        assert not set(words) & set(ONCE)


def test_the_unit_of_a_server_leaves_its_jobs_to_it() -> None:
    unit = (DEPLOY / "systemd" / "headrace-serve.service").read_text("utf-8")
    (words,) = re.findall(r"^ExecStart=\S+/headrace (.*) \$HEADRACE_OPTIONS$", unit, re.MULTILINE)
    assert parsed(words.replace("%S/headrace/pipelines", str(DEPLOY)).split()) == "serve"
    assert {"KillMode=process", "KillSignal=SIGTERM", "OOMPolicy=continue"} <= {*unit.splitlines()}


def test_the_options_for_once_are_there() -> None:
    run = {option for one in headrace.commands["run"].params for option in one.opts}
    assert set(ONCE) <= run


def test_statuses_that_no_restart_mends_are_the_documented_rest() -> None:
    documented = {int(n) for n in re.findall(r"^\| (\d+) \|", page("cli.md"), re.MULTILINE)}
    (prevented,) = re.findall(r"^RestartPreventExitStatus=(.*)$", UNIT, re.MULTILINE)
    assert {int(n) for n in prevented.split()} == documented - RETRIED - {0}


@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".yaml"], ids=str)
def test_yaml_is_yaml(path: Path) -> None:
    assert all(yaml.safe_load_all(path.read_text("utf-8")))


def test_the_pipeline_has_no_problems() -> None:
    checked = check_pipeline(str(DEPLOY / "orders.yaml"), ())
    assert checked.is_valid and not checked.problems


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_config_map_has_that_pipeline(path: Path, tmp_path: Path) -> None:
    ((name, text),) = documents(path)["ConfigMap"]["data"].items()
    (tmp_path / name).write_text(text, "utf-8")
    checked = check_pipeline(str(tmp_path / name), ())
    assert checked.is_valid and not checked.problems
    place = checked.pipeline.settings.checkpoint.dir
    assert (
        (place is not None) == (path.stem == "bucket") == ("--take-over" in container(path)["args"])
    )
    as_it_is = (DEPLOY / "orders.yaml").read_text("utf-8")
    assert text.replace(f', dir: "{place}"', "") == as_it_is


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_pod_is_alone_and_has_all_that_it_names(path: Path) -> None:
    found = documents(path)
    spec = found["StatefulSet"]["spec"]
    pod = spec["template"]["spec"]
    claimed = [claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", ())]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["mountPath"]: mount["name"] for mount in container(path)["volumeMounts"]}
    assert spec["replicas"] == 1
    assert set(mounts.values()) == {*volumes, *claimed}
    assert volumes["pipeline"]["configMap"]["name"] == found["ConfigMap"]["metadata"]["name"]
    claim = found["PersistentVolumeClaim"]["metadata"]["name"]
    assert volumes["data"]["persistentVolumeClaim"]["claimName"] == claim
    (file,) = found["ConfigMap"]["data"]
    assert f"/etc/headrace/{file}" in container(path)["args"] and "/etc/headrace" in mounts
    (home,) = re.findall(r"HEADRACE_HOME=(\S+)", IMAGE)
    assert home in mounts
    assert f"USER {pod['securityContext']['runAsUser']}:" in IMAGE


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_probes_ask_the_port_that_is_served(path: Path) -> None:
    args = container(path)["args"]
    url = f"'http://127.0.0.1:{args[args.index('--http') + 1]}"
    asked = {
        kind: container(path)[f"{kind}Probe"]["exec"]["command"][-1]
        for kind in ("startup", "liveness", "readiness")
    }
    assert f"{url}/live'" in asked["startup"]
    assert asked["liveness"] == asked["startup"]
    assert f"{url}/ready'" in asked["readiness"]
    assert asked["liveness"] in IMAGE, "the image asks otherwise"


def test_the_patch_is_of_that_container() -> None:
    patch = yaml.safe_load((DEPLOY / "kubernetes" / "by-hand.yaml").read_text("utf-8"))
    (patched,) = patch["spec"]["template"]["spec"]["containers"]
    for path in EXAMPLES:
        assert patched["name"] == container(path)["name"]
        probes = {key for key in container(path) if key.endswith("Probe")}
        assert {key for key, value in patched.items() if value is None} == probes


def test_the_image_has_every_package() -> None:
    packages = re.findall(r"^    headrace\.(\w+) = ", (ROOT / "setup.cfg").read_text("utf-8"), re.M)
    copied = [
        word for line in re.findall(r"^COPY (?!--)(.*) \S+$", IMAGE, re.M) for word in line.split()
    ]
    let_in = re.findall(r"^!(.*)$", (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8"), re.M)
    assert set(packages) <= set(copied) == set(let_in)
    assert all((ROOT / name).exists() for name in copied)


def test_metrics_that_are_watched_are_there() -> None:
    names = {metric.name for metric in METRICS}
    rules = (DEPLOY / "alerts.yaml").read_text("utf-8")
    watched = set(re.findall(r"\bheadrace_\w+", rules + PAGE))
    assert watched and watched <= names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_is_on_the_page(path: Path) -> None:
    name = path.name.removesuffix(".dockerignore")
    assert f"deploy/{path.parent.relative_to(DEPLOY) / name}" in PAGE
