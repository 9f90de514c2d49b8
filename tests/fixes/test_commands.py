"""Commands survive whatever a name contains, and never contain what must not be advised."""

import json
import shlex
from collections.abc import Callable

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.fixes import Risk, kubectl, manifests, reset_steps, steps
from tests.builders import gpu, pod

names = st.text(min_size=1, max_size=60).filter(lambda s: "\x00" not in s)


@given(names, names)
def test_the_shell_gives_every_name_back(name: str, namespace: str) -> None:
    commands: list[Callable[[], str]] = [
        lambda: kubectl.describe("pod", name, namespace),
        lambda: kubectl.get_yaml("pod", name, namespace),
        lambda: kubectl.logs(name, namespace, name, previous=True),
        lambda: kubectl.delete_pod(name, namespace, force=True),
        lambda: kubectl.patch("job", name, namespace, "{}"),
    ]
    for command in commands:
        words = shlex.split(command())
        assert words[0] == "kubectl"
        assert name in words
        assert namespace in words


@given(names)
def test_a_name_is_never_a_flag(name: str) -> None:
    words = shlex.split(steps.cordon(name).command)
    assert words[-1] == name
    if name.startswith("-"):
        assert words[-2] == "--"


@given(names)
def test_a_node_name_stays_inside_its_selector(name: str) -> None:
    words = shlex.split(steps.restart_pod_on_node("nvidia-device-plugin-daemonset", name, why="x").command)
    assert words[-1] == f"spec.nodeName={name}"


@given(names, names)
def test_a_manifest_gives_every_name_back(name: str, value: str) -> None:
    document = {"metadata": {"name": name, "labels": {value: name}}}
    assert json.loads(manifests.to_json(document)) == document
    printable = {"metadata": {"name": name}}
    assert yaml.safe_load(manifests.to_yaml(printable)) == printable


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Pod", ["spec"]),
        ("Deployment", ["spec", "template", "spec"]),
        ("CronJob", ["spec", "jobTemplate", "spec", "template", "spec"]),
    ],
)
def test_a_patch_touches_only_the_named_container(kind: str, path: list[str]) -> None:
    body = manifests.container_patch({"main": {"resources": {"limits": {"memory": "64Gi"}}}}, kind=kind)
    inner = body
    for key in path:
        assert list(inner) == [key]
        inner = inner[key]
    assert inner == {"containers": [{"name": "main", "resources": {"limits": {"memory": "64Gi"}}}]}


def test_what_loses_something_is_labelled_and_says_what() -> None:
    assert reset_steps.drain("gpu-1").risk is Risk.DESTRUCTIVE
    assert "emptyDir" in reset_steps.drain("gpu-1").why
    assert reset_steps.reset_gpu(gpu()).risk is Risk.DESTRUCTIVE
    assert steps.describe_pod(pod()).risk is Risk.READ_ONLY


def test_a_daemon_set_is_only_ever_restarted_on_one_node() -> None:
    command = steps.restart_pod_on_node("nvidia-device-plugin-daemonset", "gpu-1", why="x").command
    assert "--field-selector spec.nodeName=gpu-1" in command
    assert "--all" not in command
