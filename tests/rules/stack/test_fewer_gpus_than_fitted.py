"""GPU201: what is fitted and not allocatable, with the numbers; sharing, MIG and young nodes stay silent."""

from typing import Any

from diagnostics.collect.devices import joined
from diagnostics.findings import Finding, Severity
from diagnostics.fixes import StepKind
from diagnostics.rules import diagnose
from diagnostics.signatures import signals_in
from diagnostics.snapshot import Allocation, Condition, DeviceHealth, Node, Past, Pod, Source, Taint
from tests.builders import ago, container, gpu, node, pod, snapshot
from tests.claims import claim, claimant, dra, dra_node, gpu_device, mig_device, slice_of, whole_gpus
from tests.rules.stack.operator_pods import component, crashing

PCI = "feature.node.kubernetes.io/pci-10de.present"


def findings(
    host: Node, *pods: Pod, past: Past | None = None, given: Allocation | None = None, **fields: Any
) -> list[Finding]:
    given = given or Allocation()
    gpus = joined((host,), pods, (), past or Past(), dra=given)
    found = diagnose(snapshot(host, *pods, gpus=gpus, dra=given, **fields)).findings
    return [f for f in found if f.slug == "fewer-gpus-than-fitted"]


def short(allocatable: float, **fields: Any) -> Node:
    return node(allocatable={"nvidia.com/gpu": allocatable}, **fields)


def test_one_of_eight_is_lost() -> None:
    (finding,) = findings(short(7))
    assert finding.title == "Node gpu-1 offers 7 of 8 fitted GPUs"
    assert (finding.cause, finding.gpus) == ("unhealthy-device", 1)


def test_the_unhealthy_device_and_its_holder_are_named() -> None:
    holder = pod(containers=(container(devices=(DeviceHealth("nvidia.com/gpu", "GPU-bad", "Unhealthy"),)),))
    (finding,) = findings(short(7), holder)
    assert any("GPU-bad (research/train-0)" in e.value for e in finding.evidence)
    assert finding.gpus == 1


def test_all_lost_of_a_known_capacity_are_unhealthy_or_the_plugin_is_gone() -> None:
    (finding,) = findings(short(0))
    assert (finding.cause, finding.gpus) == ("devices-unhealthy-or-plugin-gone", 8)
    assert finding.confidence == "medium"
    assert "nobody has used them up" in finding.summary


def plugin(ready: bool = True) -> Pod:
    fields: dict[str, Any] = {} if ready else {"state": "waiting", "waiting_reason": "CrashLoopBackOff"}
    return pod(
        "nvidia-device-plugin-daemonset-x", "gpu-operator", 0, labels={"app": "nvidia-device-plugin-daemonset"},
        containers=(container("nvidia-device-plugin", 0, is_ready=ready, **fields),),
    )  # fmt: skip


def test_a_plugin_that_fails_is_not_registered() -> None:
    (finding,) = findings(short(0), plugin(ready=False))
    assert finding.cause == "plugin-not-registered"


def test_behind_a_component_that_fails_the_first_step_is_that_components() -> None:
    """No restart of a plugin that fails by something else, and no case for the hardware team."""
    message = "Failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND"
    failing = component(
        "nvidia-device-plugin-daemonset", crashing("nvidia-device-plugin", message), runtime_class="nvidia"
    )
    host = short(0, capacity={"nvidia.com/gpu": 0.0})
    found = diagnose(snapshot(host, failing, gpu(0, is_healthy=False), gpu(1, is_healthy=False))).findings
    symptom = next(f for f in found if f.slug == "fewer-gpus-than-fitted")
    root = next(f for f in found if f.slug == "operator-component-failing")
    assert symptom.fix == root.fix
    assert "Its device plugin fails: the container runtime hands it no driver." in symptom.summary
    assert any(e.label == "Driver" and "2 GPUs of the node report" in e.value for e in symptom.evidence)
    assert "not up" not in symptom.summary


def test_a_plugin_that_is_gone_is_no_case_for_the_hardware_team() -> None:
    (finding,) = findings(short(0))
    assert "platform team" in finding.fix.steps[-1].title
    (restart,) = [s for s in finding.fix.steps if s.kind is StepKind.FIX]
    assert "offers no GPU now" in restart.why


def test_what_the_plugin_says_of_its_devices_is_the_cause() -> None:
    running = plugin()
    line = "XidCriticalError: Xid=79 on Device=GPU-7c2a; marking device as unhealthy."
    told = signals_in(line, namespace=running.namespace, pod=running.name, container="nvidia-device-plugin")
    (finding,) = findings(short(0), running, signals=told)
    assert finding.cause == "unhealthy-device"
    assert "after Xid 79" in finding.summary


def test_a_plugin_that_the_kubelet_has_forgotten_is_told_at_zero_of_zero() -> None:
    none = {"nvidia.com/gpu": 0.0}
    (finding,) = findings(short(0, capacity=none))
    assert (finding.cause, finding.gpus) == ("plugin-not-registered", 8)
    assert finding.title == "Node gpu-1 offers 0 of 8 fitted GPUs"
    unlabelled = short(0, capacity=none, labels={"nvidia.com/gpu.count": ""})
    (finding,) = findings(unlabelled, past=Past(fitted={"gpu-1": 8}))
    assert finding.cause == "plugin-not-registered"


def test_a_pci_device_without_a_count_is_at_least_one() -> None:
    bare = node(gpus=0, labels={PCI: "true"})
    (finding,) = findings(bare)
    assert finding.cause == "node-not-managed"
    assert any(e.value == "at least 1, number unknown" for e in finding.evidence)


def test_a_managed_node_that_advertises_nothing_is_told_from_an_unmanaged_one() -> None:
    managed = node(gpus=0, labels={PCI: "true", "nvidia.com/gpu.present": "true"})
    assert findings(managed)[0].cause == "driver-or-plugin-not-up"


def test_the_past_maximum_counts_as_fitted() -> None:
    (finding,) = findings(node(gpus=6), past=Past(fitted={"gpu-1": 8}))
    assert finding.gpus == 2


def test_a_driver_upgrade_is_information() -> None:
    upgrading = short(0, labels={"nvidia.com/gpu-driver-upgrade-state": "pod-restart-required"})
    (finding,) = findings(upgrading)
    assert (finding.severity, finding.cause) == (Severity.INFO, "driver-upgrade-running")


def test_time_slicing_is_no_loss() -> None:
    shares = {"nvidia.com/gpu": 16.0}
    shared = node(labels={"nvidia.com/gpu.count": "4", "nvidia.com/gpu.replicas": "4"}, capacity=shares)
    assert not findings(node(labels=shared.labels, capacity=shares, allocatable=shares))


def test_mig_is_counted_by_its_instances() -> None:
    amounts = {"nvidia.com/gpu": 2.0, "nvidia.com/mig-1g.10gb": 28.0, "nvidia.com/mig-3g.40gb": 4.0}
    assert not findings(node(gpus=2, capacity=amounts, allocatable=amounts))


def test_a_new_node_is_given_time_to_advertise() -> None:
    assert not findings(short(0, created_at=ago(minutes=3)))


def test_a_node_that_is_not_ready_is_not_its_business() -> None:
    assert not findings(short(0, conditions=(Condition("Ready", "False"),)))


def test_a_cpu_node_is_well() -> None:
    assert not findings(node(gpus=0))


def test_without_nodes_it_does_not_look() -> None:
    assert "GPU201" in {s.code for s in diagnose(snapshot(without=[Source.NODES])).skipped}


def given_out_by_claims(**labels: str) -> Node:
    count = {"nvidia.com/gpu.count": "8", PCI: "true"} | labels
    return node(gpus=0, labels=count)


def test_gpus_that_are_given_out_by_claims_are_not_missing() -> None:
    claimant = pod(containers=(container(gpus=0),), resource_claims=("gpus",))
    driver = pod("dra", containers=(container(gpus=0),), labels={"app": "nvidia-dra-driver-kubelet-plugin"})
    for host in (given_out_by_claims(), node(gpus=0, labels={PCI: "true"})):
        assert [findings(host, claimant), findings(host, driver)] == [[], []]


def test_a_plugin_that_is_gone_is_missed_though_a_pod_has_claims() -> None:
    network = pod(containers=(container(gpus=0),), resource_claims=("nic",))
    (finding,) = findings(short(0), network)
    assert finding.cause == "devices-unhealthy-or-plugin-gone"


def test_a_finished_pod_with_claims_explains_nothing() -> None:
    done = pod(containers=(container(gpus=0),), resource_claims=("gpus",), phase="Succeeded")
    assert len(findings(given_out_by_claims(), done)) == 1


def test_a_node_that_nobody_claims_on_misses_nothing() -> None:
    host = node(gpus=0, labels={PCI: "true", "nvidia.com/gpu.count": "8"})
    assert findings(host, given=dra(whole_gpus())) == []


def test_a_tainted_device_is_missed() -> None:
    sick = gpu_device(1, taints=(Taint("gpu.nvidia.com/xid", "NoExecute", "79"),))
    (finding,) = findings(dra_node(gpus=2), given=dra(slice_of(gpu_device(0), sick)))
    assert (finding.cause, finding.gpus) == ("device-tainted", 1)
    assert finding.title == "Node gpu-1 offers 1 of 2 GPUs to claims"
    assert "gpu.nvidia.com/xid=79:NoExecute" in [fact.value for fact in finding.evidence]


def test_a_taint_without_effect_is_only_a_note() -> None:
    noted = gpu_device(0, taints=(Taint("gpu.nvidia.com/unmonitored", "None"),))
    assert findings(dra_node(gpus=1), given=dra(slice_of(noted))) == []


def test_a_board_that_the_driver_no_longer_publishes_is_missed() -> None:
    (finding,) = findings(dra_node(gpus=8), given=dra(whole_gpus(7)))
    assert (finding.cause, finding.gpus) == ("device-not-published", 1)


def test_partitions_are_no_missing_boards() -> None:
    parts = [mig_device(board, number) for board in range(2) for number in range(7)]
    counters = {f"gpu-{board}": {"memory-slices": 8.0} for board in range(2)}
    held = claim("m", "gpu-0-mig-1g10gb-2", pods=("research/train-0",))
    given = dra(slice_of(*parts, counters=counters), held)
    assert findings(dra_node(gpus=2), claimant("train-0", "m"), given=given) == []
