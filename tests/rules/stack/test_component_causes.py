"""GPU202: the cause of a failing component, from logs, images, events and what else the node shows."""

from typing import Any

import pytest

from diagnostics.findings import Finding
from diagnostics.fixes import StepKind
from diagnostics.rules import diagnose
from diagnostics.snapshot import Container, Node, Pod, Terminated
from tests.builders import ago, event, node, pod, snapshot
from tests.rules.stack.operator_pods import (
    component,
    crashing,
    pulling,
    said,
    waiting_in_init,
    well,
)

DRIVER, PLUGIN = "nvidia-driver-daemonset", "nvidia-device-plugin-daemonset"
TOOLKIT = "nvidia-container-toolkit-daemonset"
HARDWARE = {"feature.node.kubernetes.io/pci-10de.present": "true"}


def findings(*parts: Any, **fields: Any) -> list[Finding]:
    found = diagnose(snapshot(*parts, **fields)).findings
    return [f for f in found if f.slug == "operator-component-failing"]


def driver_says(text: str) -> Finding:
    failing = component(DRIVER, crashing("nvidia-driver-ctr"))
    (finding,) = findings(node(kernel="6.8.0-45-generic"), failing, signals=said(failing, text))
    return finding


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("Could not resolve Linux kernel version", "driver-build-no-headers-for-kernel"),
        ("E: Unable to locate package linux-headers-6.8.0", "driver-build-no-headers-for-kernel"),
        (
            "W: Failed to fetch http://archive.ubuntu.com/x\nCould not resolve Linux kernel version",
            "driver-build-packages-unreachable",
        ),
        (
            "FATAL: failed to install elfutils packages. RHEL entitlement may be improperly deployed.",
            "driver-build-no-entitlement",
        ),
        (
            "ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'rcu_read_lock'",
            "driver-release-incompatible-with-kernel",
        ),
        ("make[2]: *** [cc_version_check] Error 1", "driver-release-incompatible-with-kernel"),
        ("could not insert 'nvidia': Key was rejected by service", "secure-boot-rejects-driver"),
        ("ERROR: The Nouveau kernel driver is currently in use by your system.", "nouveau-loaded"),
        ("Could not unload NVIDIA driver kernel modules, driver is in use", "driver-in-use"),
        (
            "this device requires use of the NVIDIA open kernel modules",
            "driver-needs-open-kernel-modules",
        ),
        ("something else went wrong", "driver-crash-loop"),
    ],
)
def test_the_driver_pods_log_names_the_cause(text: str, cause: str) -> None:
    finding = driver_says(text)
    assert finding.cause == cause
    assert [s.kind for s in finding.fix.steps if s.kind is StepKind.FIX] == [StepKind.FIX]


def test_the_line_and_the_kernel_are_evidence() -> None:
    told = {e.label: e.value for e in driver_says("Could not resolve Linux kernel version").evidence}
    assert told["It said"] == "Could not resolve Linux kernel version"
    assert told["Kernel"] == "6.8.0-45-generic"


@pytest.mark.parametrize(
    ("image", "message", "cause"),
    [
        (
            "nvcr.io/nvidia/driver:535-5.15.0-118-generic-ubuntu22.04",
            "not found",
            "precompiled-driver-image-missing",
        ),
        (
            "registry.example/nvidia/driver:550.90.07-5.15.0-1061-gke-ubuntu22.04",
            "manifest unknown: manifest unknown",
            "precompiled-driver-image-missing",
        ),
        ("nvcr.io/nvidia/driver:580.95.05-ubuntu26.04", "NotFound", "driver-image-missing-for-os"),
        ("nvcr.io/nvidia/driver:460.32.03-amzn2", "manifest unknown", "driver-image-missing-for-os"),
        ("nvcr.io/nvidia/driver:535.129.03-talosv1.6.1", "not found", "driver-image-missing-for-os"),
        ("nvcr.io/nvidia/driver:nonsense", "not found", "driver-image-not-found"),
        ("nvcr.io/nvidia/driver:550.90.07-ubuntu22.04", "401 Unauthorized", "registry-refuses-access"),
        ("nvcr.io/nvidia/driver:550.90.07-ubuntu22.04", "dial tcp: i/o timeout", "registry-unreachable"),
        ("nvcr.io/nvidia/driver:550.90.07-ubuntu22.04", "x509: unknown", "registry-certificate-untrusted"),
        ("nvcr.io/nvidia/driver:550.90.07-ubuntu22.04", "toomanyrequests: 429", "registry-rate-limited"),
        ("nvcr.io/nvidia/driver:550.90.07-ubuntu22.04", "back-off", "driver-image-pull"),
    ],
)
def test_an_image_that_cannot_be_pulled_says_why(image: str, message: str, cause: str) -> None:
    (finding,) = findings(node(), component(DRIVER, pulling("nvidia-driver-ctr", image, message)))
    assert finding.cause == cause


def test_the_reason_of_a_pull_may_stand_in_its_events() -> None:
    image = "nvcr.io/nvidia/driver:535-5.15.0-118-generic-ubuntu22.04"
    failing = component(DRIVER, pulling("nvidia-driver-ctr", image, f'Back-off pulling image "{image}"'))
    words = f'Failed to pull image "{image}": {image}: not found'
    told = event("Failed", words, failing.name, namespace="gpu-operator")
    (finding,) = findings(node(), failing, told)
    assert finding.cause == "precompiled-driver-image-missing"


def sandboxless(app: str = PLUGIN) -> tuple[Pod, Any]:
    waiting = Container(name="ctr", state="waiting", waiting_reason="ContainerCreating")
    failing = component(app, waiting, phase="Pending")
    words = (
        'Failed to create pod sandbox: failed to get sandbox runtime: no runtime for "nvidia" is configured'
    )
    told = event("FailedCreatePodSandBox", words, failing.name, namespace="gpu-operator")
    return failing, told


def test_a_sandbox_without_the_runtime_waits_for_the_toolkit_that_fails() -> None:
    toolkit = component(TOOLKIT, crashing("ctr", "unable to load containerd config: permission denied"))
    (finding,) = findings(node(), *sandboxless(), toolkit)
    assert finding.cause == "toolkit-cannot-configure-runtime"
    assert finding.title.startswith("Container toolkit fails")
    assert "1 other component on the node waits for it" in finding.summary


def test_a_sandbox_without_the_runtime_beside_a_ready_toolkit_is_its_mistake() -> None:
    (finding,) = findings(node(), *sandboxless(), well(TOOLKIT, "ctr"))
    assert finding.cause == "nvidia-runtime-not-configured"


def test_a_pod_that_is_only_being_created_is_left_alone() -> None:
    assert not findings(node(), sandboxless()[0])


QUIET = (
    "Detected non-NVML platform: could not load NVML library: libnvidia-ml.so.1: cannot open shared object\n"
    "No devices found. Waiting indefinitely."
)


def quiet(host: Node) -> list[Finding]:
    plugin = well(PLUGIN, "nvidia-device-plugin")
    return findings(host, plugin, signals=said(plugin, QUIET))


def test_a_ready_plugin_that_finds_no_driver_on_a_gpu_node_is_told() -> None:
    (finding,) = quiet(node(gpus=0, labels=HARDWARE))
    assert finding.cause == "nvidia-runtime-not-used"
    assert "it runs, and offers no GPU" in finding.summary


def test_a_ready_plugin_on_a_node_without_gpus_is_well() -> None:
    assert not quiet(node(gpus=0))
    assert not quiet(node(gpus=0, labels={"feature.node.kubernetes.io/kernel-version.full": "6.8"}))


def test_a_plugin_that_crashes_where_no_gpu_is_has_nothing_to_do_there() -> None:
    plugin = component(PLUGIN, crashing("nvidia-device-plugin", "Incompatible strategy detected auto"))
    host = node(gpus=0, labels={"feature.node.kubernetes.io/kernel-version.full": "6.8"})
    assert findings(host, plugin)[0].cause == "plugin-on-node-without-gpu"


def test_a_driver_that_waits_in_an_upgrade_is_stuck_in_it() -> None:
    driver = component(DRIVER, waiting_in_init("k8s-driver-manager"), phase="Pending")
    host = node(labels={"nvidia.com/gpu-driver-upgrade-state": "pod-restart-required"})
    (finding,) = findings(host, driver, component(TOOLKIT, waiting_in_init("driver-validation")))
    assert finding.cause == "driver-upgrade-stuck"
    assert finding.title.startswith("Driver fails")


def test_an_upgrade_that_failed_is_told_though_all_pods_are_well() -> None:
    host = node(labels={"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"}, unschedulable=True)
    (finding,) = findings(host, well(DRIVER, "nvidia-driver-ctr"))
    assert (finding.cause, finding.severity) == ("driver-upgrade-failed", "warning")
    done = node(labels={"nvidia.com/gpu-driver-upgrade-state": "upgrade-done"})
    assert not findings(done, well(DRIVER, "nvidia-driver-ctr"))


def test_an_own_log_line_beats_what_a_victim_says() -> None:
    driver = component(DRIVER, crashing("nvidia-driver-ctr"))
    plugin = component(PLUGIN, crashing("nvidia-device-plugin", "could not load NVML library"))
    (finding,) = findings(
        node(), plugin, driver, signals=said(driver, "Could not resolve Linux kernel version")
    )
    assert finding.cause == "driver-build-no-headers-for-kernel"
    assert "device plugin" in next(e.value for e in finding.evidence if e.label == "Also failing")


def test_a_component_that_is_ended_for_memory_says_so() -> None:
    killed = crashing("nvidia-dcgm-exporter", last_terminated=Terminated("OOMKilled", 137))
    (finding,) = findings(node(), component("nvidia-dcgm-exporter", killed))
    assert finding.cause == "component-out-of-memory"


def test_logs_of_a_workload_do_not_name_an_operator_pods_cause() -> None:
    driver = component(DRIVER, crashing("nvidia-driver-ctr"))
    workload = pod("train-0", created_at=ago(hours=1))
    (finding,) = findings(node(), driver, workload, signals=said(workload, "Key was rejected by service"))
    assert finding.cause == "driver-crash-loop"
