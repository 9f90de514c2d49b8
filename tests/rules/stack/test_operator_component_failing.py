"""GPU202: the first component that fails for a reason of its own is named; those that wait for it are victims."""

from typing import Any

import pytest

from diagnostics.findings import Finding, Severity
from diagnostics.fixes import Risk, StepKind
from diagnostics.rules import diagnose
from diagnostics.snapshot import Condition, Container, Metrics, OwnerKey, Source, Terminated
from tests.builders import ago, gpu, node, pod, snapshot
from tests.rules.stack.operator_pods import component, crashing, pulling, ready, waiting_in_init, well


def findings(*parts: Any, **fields: Any) -> list[Finding]:
    found = diagnose(snapshot(*parts, **fields)).findings
    return [f for f in found if f.slug == "operator-component-failing"]


DRIVER = component("nvidia-driver-daemonset", pulling("nvidia-driver-ctr"))
TOOLKIT = component("nvidia-container-toolkit-daemonset", waiting_in_init("driver-validation"))
PLUGIN = component("nvidia-device-plugin-daemonset", waiting_in_init("toolkit-validation"))


def test_a_driver_that_cannot_be_pulled_is_the_cause_and_the_rest_wait() -> None:
    (finding,) = findings(node(), PLUGIN, TOOLKIT, DRIVER)
    assert finding.cause == "driver-image-pull"
    assert (finding.subject.kind, finding.subject.name) == ("Node", "gpu-1")
    assert "2 other components on the node wait for it" in finding.summary
    assert set(finding.pods) == {DRIVER.key, TOOLKIT.key, PLUGIN.key}


@pytest.mark.parametrize(
    ("app", "container", "cause", "severity"),
    [
        (
            "nvidia-device-plugin-daemonset",
            crashing("nvidia-device-plugin"),
            "device-plugin-crash-loop",
            "critical",
        ),
        (
            "nvidia-device-plugin-daemonset",
            crashing("nvidia-device-plugin", "Failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND"),
            "nvidia-runtime-not-used",
            "critical",
        ),
        (
            "nvidia-operator-validator",
            crashing("driver-validation", "Driver/library version mismatch", is_init=True),
            "driver-library-mismatch",
            "critical",
        ),
        ("nvidia-container-toolkit-daemonset", crashing("ctr"), "container-toolkit-crash-loop", "critical"),
        ("nvidia-dcgm-exporter", crashing("nvidia-dcgm-exporter"), "dcgm-exporter-crash-loop", "warning"),
        (
            "gpu-feature-discovery",
            crashing("gpu-feature-discovery"),
            "feature-discovery-crash-loop",
            "warning",
        ),
        (
            "nvidia-mig-manager",
            crashing("nvidia-mig-manager", "unable to apply MIG config: 8 clients are using the GPU"),
            "mig-mode-change-reset-blocked",
            "warning",
        ),
        ("nvidia-driver-daemonset", crashing("nvidia-driver-ctr"), "driver-crash-loop", "critical"),
    ],
)
def test_every_component_is_named_by_its_failure(
    app: str, container: Container, cause: str, severity: str
) -> None:
    (finding,) = findings(node(), component(app, container))
    assert (finding.cause, finding.severity) == (cause, Severity(severity))


PLUGIN_WITHOUT_NVML = crashing("nvidia-device-plugin", "Failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND")


def test_a_driver_whose_gpus_report_is_loaded_and_not_handed_to_the_container() -> None:
    plugin = component("nvidia-device-plugin-daemonset", PLUGIN_WITHOUT_NVML, runtime_class="nvidia")
    toolkit = well("nvidia-container-toolkit-daemonset", "ctr")
    (finding,) = findings(node(), plugin, toolkit, gpu(0), gpu(1))

    told = {e.label: e.value for e in finding.evidence}
    assert finding.cause == "nvidia-runtime-injects-no-driver"
    assert "the class and its handler are there" in finding.summary
    assert told["Driver"] == "loaded: 2 GPUs of the node report metrics"
    assert (told["Runtime class"], told["Ready on the node"]) == ("nvidia", "container toolkit")
    (repair,) = [s for s in finding.fix.steps if s.kind is StepKind.FIX]
    assert repair.risk is Risk.DISRUPTIVE
    assert repair.command == f"kubectl delete pod -n gpu-operator {toolkit.name}"
    assert not any("runtimeclass" in s.command for s in finding.fix.steps)
    assert any(s.command.endswith("nvidia-container-runtime/config.toml") for s in finding.fix.steps)
    assert "kernel" not in "".join(s.why + s.expect for s in finding.fix.steps)


def test_without_a_runtime_class_it_is_looked_for() -> None:
    plugin = component("nvidia-device-plugin-daemonset", PLUGIN_WITHOUT_NVML, runtime_class="kata")
    (finding,) = findings(node(), plugin, gpu(0))
    assert finding.cause == "nvidia-runtime-not-used"
    assert any(s.command == "kubectl get runtimeclass -o yaml nvidia" for s in finding.fix.steps)


def test_where_pods_still_come_the_node_is_closed_to_them_before_the_runtime_restarts() -> None:
    """What runs is named as at risk, and why other components are ready still."""
    message = "error creating NVML labeler: failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND"
    discovery = component(
        "gpu-feature-discovery", crashing("gpu-feature-discovery", message), runtime_class="nvidia"
    )
    plugin = component(
        "nvidia-device-plugin-daemonset",
        Container(name="nvidia-device-plugin", state="running", is_ready=True, running_since=ago(days=9)),
        conditions=(Condition("Ready", "True", since=ago(days=9)),),
    )
    toolkit = well("nvidia-container-toolkit-daemonset", "ctr")
    (finding,) = findings(node(), discovery, plugin, toolkit, pod("chat-0", "serving", 8), gpu(0))

    assert "labels" in finding.summary
    assert "may be handed no driver either: the ready device plugin still draws pods there" in finding.summary
    assert any(e.label == "Ready ones run for" and e.value.startswith("9 d") for e in finding.evidence)
    changes = [s for s in finding.fix.steps if s.risk is not Risk.READ_ONLY]
    assert [s.command.split()[1] for s in changes] == ["cordon", "delete", "delete", "uncordon"]
    assert "serving/chat-0" in changes[1].why
    assert "Failed to initialize NVML: Unknown Error" in changes[1].why
    assert changes[-1].kind is StepKind.RESTORE


def test_what_is_missing_is_said_by_what_the_component_does() -> None:
    (finding,) = findings(node(), component("nvidia-dcgm-exporter", crashing("nvidia-dcgm-exporter")))
    assert "GPU metrics are missing" in finding.summary
    assert "driver" not in finding.summary


def test_only_a_driver_is_said_to_fail_of_its_version_or_kernel() -> None:
    (finding,) = findings(node(), component("nvidia-mig-manager", crashing("nvidia-mig-manager")))
    assert "kernel" not in "".join(s.why + s.expect for s in finding.fix.steps)
    (finding,) = findings(node(), component("nvidia-driver-daemonset", crashing("nvidia-driver-ctr")))
    assert "kernel" in finding.fix.steps[-1].why


def test_a_restart_of_the_runtime_names_who_holds_gpus_there() -> None:
    toolkit = component(
        "nvidia-container-toolkit-daemonset", crashing("ctr", 'no runtime for "nvidia" is configured')
    )
    (finding,) = findings(node(), toolkit, pod("chat-0", "serving", 8))
    (repair,) = [s for s in finding.fix.steps if s.kind is StepKind.FIX]
    assert "serving/chat-0" in repair.why


def test_without_a_toolkit_pod_the_runtime_is_the_nodes_own_affair() -> None:
    plugin = component("nvidia-device-plugin-daemonset", PLUGIN_WITHOUT_NVML)
    (finding,) = findings(node(), plugin, gpu(0))
    (repair,) = [s for s in finding.fix.steps if s.kind is StepKind.FIX]
    assert "nvidia-ctk runtime configure" in repair.why


def test_stale_metrics_prove_no_driver() -> None:
    plugin = component("nvidia-device-plugin-daemonset", PLUGIN_WITHOUT_NVML)
    stale = gpu(0, metrics=Metrics(sampled_at=ago(minutes=20)))
    (finding,) = findings(node(), plugin, stale)
    assert (finding.cause, finding.confidence) == ("nvidia-runtime-not-used", "medium")
    assert "Driver" not in {e.label for e in finding.evidence}


def test_a_ready_driver_pod_proves_that_the_runtime_is_not_used() -> None:
    plugin = component("nvidia-device-plugin-daemonset", PLUGIN_WITHOUT_NVML)
    (finding,) = findings(node(), plugin, well("nvidia-driver-daemonset", "nvidia-driver-ctr"))
    assert (finding.cause, finding.confidence) == ("nvidia-runtime-not-used", "high")


def test_no_repair_without_a_command_is_called_safe() -> None:
    for message in (
        "",
        "driver is in use",
        "Key was rejected by service",
        "Could not resolve Linux kernel version",
    ):
        (finding,) = findings(node(), component("nvidia-driver-daemonset", crashing("x", message)))
        assert all(s.risk.rank >= Risk.DISRUPTIVE.rank for s in finding.fix.steps if s.kind is StepKind.FIX)


def test_two_failures_on_one_node_make_one_finding_led_by_the_earlier_component() -> None:
    exporter = component("nvidia-dcgm-exporter", crashing("nvidia-dcgm-exporter"))
    plugin = component("nvidia-device-plugin-daemonset", crashing("nvidia-device-plugin"))
    (finding,) = findings(node(), exporter, plugin)
    assert finding.cause == "device-plugin-crash-loop"
    assert any(e.label == "Also failing" and "DCGM exporter" in e.value for e in finding.evidence)


def test_each_sick_node_has_its_own_finding() -> None:
    other = component("nvidia-driver-daemonset", pulling("nvidia-driver-ctr"), node="gpu-2", uid="other")
    assert {f.subject.name for f in findings(node(), node("gpu-2"), DRIVER, other)} == {"gpu-1", "gpu-2"}


def test_the_operators_own_deployment_is_not_blamed_on_a_node() -> None:
    replica_set = OwnerKey("ReplicaSet", "gpu-operator", "gpu-operator-5d9", "apps/v1")
    deployment = OwnerKey("Deployment", "gpu-operator", "gpu-operator", "apps/v1")
    controller = component("gpu-operator", crashing("gpu-operator"), owners=(replica_set,), root=deployment)
    (finding,) = findings(node(), controller)
    assert finding.subject.kind == "Deployment"


def test_a_crash_loop_without_readiness_probe_is_told_by_its_restarts() -> None:
    """Ready while it runs: the condition's time starts again at every crash."""
    flapping = (Condition("Ready", "False", since=ago(minutes=1)),)
    plugin = component(
        "nvidia-device-plugin-daemonset", crashing("nvidia-device-plugin"), conditions=flapping, minutes=90
    )
    assert findings(node(), plugin)
    once = component(
        "nvidia-device-plugin-daemonset",
        crashing("nvidia-device-plugin", restarts=1),
        conditions=flapping,
        minutes=90,
    )
    assert not findings(node(), once)


def test_what_one_component_says_names_the_cause_of_another() -> None:
    validator = component("nvidia-operator-validator", crashing("driver-validation", is_init=True))
    exporter = component(
        "nvidia-dcgm-exporter",
        crashing("nvidia-dcgm-exporter", "nvml error: driver/library version mismatch"),
    )
    (finding,) = findings(node(), validator, exporter)
    assert finding.cause == "driver-library-mismatch"
    assert finding.title.startswith("Validator fails")


def test_a_young_pod_is_left_alone() -> None:
    assert not findings(node(), component("nvidia-driver-daemonset", pulling("x"), minutes=3))


def test_completed_validator_pods_are_well() -> None:
    done = component(
        "nvidia-cuda-validator",
        Container(name="nvidia-cuda-validator", state="terminated", terminated=Terminated("Completed", 0)),
        phase="Succeeded",
    )
    assert not findings(node(), done)


def test_a_ready_component_is_well() -> None:
    assert not findings(node(), component("nvidia-driver-daemonset", ready("nvidia-driver-ctr")))


def test_a_crash_loop_that_is_no_operator_component_is_not_its_business() -> None:
    other = component("web", crashing("web"))
    assert not findings(node(), other)


def test_without_pods_it_does_not_look() -> None:
    diagnosis = diagnose(snapshot(node(), without=[Source.PODS]))
    assert "GPU202" in {s.code for s in diagnosis.skipped}
