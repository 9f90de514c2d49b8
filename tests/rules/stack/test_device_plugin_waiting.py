"""A device plugin that is down because another component is; and plugins that fail, start or serve by themselves."""

import shlex
from typing import Any

import pytest

from diagnostics.findings import Hit
from diagnostics.fixes import Risk
from diagnostics.limits import Limits
from diagnostics.rules.stack.device_plugin_waiting import check
from diagnostics.snapshot import Pod
from tests.builders import ago, gpu, node, snapshot
from tests.rules.stack.operator_pods import component, crashing, waiting_in_init, well

DRIVER, TOOLKIT = "nvidia-driver-daemonset", "nvidia-container-toolkit-daemonset"
PLUGIN = "nvidia-device-plugin-daemonset"


def hits(*pods: Pod, **fields: Any) -> list[Any]:
    return list(check(snapshot(node(), *pods, gpu(0), gpu(1), **fields), Limits()))


def waiting(label: str = PLUGIN, **fields: Any) -> Pod:
    return component(label, waiting_in_init("toolkit-validation"), **fields)


@pytest.mark.parametrize(("label", "before"), [(DRIVER, "driver"), (TOOLKIT, "container toolkit")])
def test_a_plugin_behind_a_component_that_crashes_is_down(label: str, before: str) -> None:
    (hit,) = hits(component(label, crashing("main")), waiting())
    assert isinstance(hit, Hit)
    assert (hit.subject.kind, hit.subject.name, hit.gpus) == ("Node", "gpu-1", 2)
    assert hit.cause == f"device-plugin-waits-behind-{before.replace(' ', '-')}"
    assert f"it waits for the {before}" in hit.title
    assert all(fact.source for fact in hit.evidence)


def test_a_plugin_that_crashes_without_the_driver_is_down_behind_it() -> None:
    (hit,) = hits(component(DRIVER, crashing("main")), component(PLUGIN, crashing("main")))
    assert hit.cause == "device-plugin-fails-behind-driver"


def test_the_driver_for_claims_counts_as_a_plugin() -> None:
    (hit,) = hits(component(DRIVER, crashing("main")), waiting("nvidia-dra-driver-kubelet-plugin"))
    assert hit.cause == "dra-plugin-waits-behind-driver"


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param((component(PLUGIN, crashing("main")),), id="fails by itself"),
        pytest.param((waiting(),), id="waits for nobody that fails"),
        pytest.param((component(DRIVER, crashing("main")), well(PLUGIN, "main")), id="serves"),
        pytest.param((component("nvidia-dcgm-exporter", crashing("main")), waiting()), id="not before it"),
        pytest.param(
            (component(DRIVER, crashing("main")), waiting(created_at=ago(seconds=40), started_at=None)),
            id="starts",
        ),
        pytest.param((component(DRIVER, crashing("main")), waiting(deletion_at=ago())), id="is replaced"),
        pytest.param(
            (
                component(DRIVER, crashing("main")),
                waiting(),
                well("nvidia-device-plugin", "main"),
            ),
            id="another plugin serves",
        ),
    ],
)
def test_a_plugin_is_left_alone_that(pods: tuple[Pod, ...]) -> None:
    assert hits(*pods) == []


def test_nothing_is_found_without_pods_and_no_number_of_gpus_is_made_up() -> None:
    assert hits() == []
    seen = snapshot(component(DRIVER, crashing("main")), waiting())
    (hit,) = [one for one in check(seen, Limits()) if isinstance(one, Hit)]
    assert (hit.gpus, hit.subject.name) == (0, "gpu-1")


def test_the_fix_changes_nothing_here() -> None:
    (hit,) = hits(component(DRIVER, crashing("main")), waiting())
    assert {step.risk for step in hit.fix.steps} == {Risk.READ_ONLY}
    assert "driver" in hit.fix.summary


def test_hostile_names_are_made_printable() -> None:
    name = "a\x1b[31m'\n<b>"
    (hit,) = hits(component(DRIVER, crashing("main")), waiting(name=name))
    assert "\x1b" not in hit.title + hit.summary + "".join(f.value for f in hit.evidence)
    assert name in shlex.split(hit.fix.steps[1].command)
