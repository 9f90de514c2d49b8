"""CUDA waits for the NVLink fabric of a node, which nobody has set up.

## Meaning
On systems with NVSwitch (HGX and DGX boards from A100 on) the fabric manager has to set up the switches before CUDA can
start; on NVL72 racks the IMEX daemon of the node's domain as well. It is not running, still starting, or of another
version than the driver: then CUDA answers 802, `system not yet initialized`, while nvidia-smi looks well.

## Impact
No CUDA program starts on the node, on any of its GPUs, also those that need one GPU alone. The operator's validator
fails, so that the device plugin may never come up.

## Evidence
Messages with error 802 in logs, container states and events, by node; the node's GPU model and driver; other pods of
the node that work, which would contradict it.

## Not reported
A container that met it once and works now; nodes where another GPU pod does work at the same time lower the confidence.

## References
https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/
https://docs.nvidia.com/multi-node-nvlink-systems/imex-guide/
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject
from diagnostics.fixes import Fix, Risk, Step, StepKind, in_order, kubectl, steps
from diagnostics.limits import Limits
from diagnostics.operator_components import component_label
from diagnostics.rules.base import rule
from diagnostics.rules.stack.heard import Heard, heard, uses_its_gpu
from diagnostics.snapshot import Node, Pod, Snapshot, Source
from diagnostics.text import counted, listed, printable

CAUSE, IMEX = "fabric-manager-down-or-mismatched", "imex-domain-not-ready"
DRIVER = "nvidia-driver-daemonset"


@rule(
    code="GPU207",
    slug="fabric-manager-down",
    severity=Severity.CRITICAL,
    needs={Source.PODS},
    uses={Source.NODES, Source.LOGS, Source.EVENTS, Source.METRICS},
    caused_by=("nvml-failing", "fatal-xid"),
    hold=1,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    """One hit per node; pods that were never bound cannot say so."""
    by_node: dict[str, list[Heard]] = defaultdict(list)
    for one in heard(snapshot, limits, ("cuda-not-ready", "fabric-manager-mismatch")):
        if one.pod.node:
            by_node[one.pod.node].append(one)
    for name, found in by_node.items():
        found.sort(key=lambda one: one.pod.key)
        yield _hit(snapshot, name, found)


def _hit(snapshot: Snapshot, name: str, found: Sequence[Heard]) -> Hit:
    node = snapshot.node_by_name.get(name)
    subject = Subject.of_node(node) if node else Subject(kind="Node", name=name)
    pods = tuple(sorted({one.pod.key for one in found}))
    here = snapshot.pods_by_node.get(name, [])
    well = [p.key for p in here if p.gpus and p.key not in pods and uses_its_gpu(snapshot, p)]
    is_rack = node is not None and _is_rack_scale(node)
    cause = IMEX if is_rack else CAUSE
    what = (
        "the NVLink domain of the rack is not ready"
        if is_rack
        else "the fabric manager does not serve its GPUs"
    )
    also = "the fabric manager or the IMEX daemon" if is_rack else "the fabric manager"
    return Hit(
        subject=subject,
        cause=cause,
        title=f"Node {name}: {what}",
        summary=f"CUDA answers `system not yet initialized` (802) there: {also} is not running, not ready, or of "
        "another version than the driver. nvidia-smi can look well meanwhile, and no GPU is broken.",
        evidence=tuple(_evidence(node, found, pods, well)),
        confidence=Confidence.MEDIUM if well else Confidence.HIGH,
        fix=_fix(node, name, found[0], _driver_pod(here), is_rack=is_rack),
        gpus=len(snapshot.gpus_by_node.get(name, ())),
        nodes=(name,),
        pods=pods,
    )


def _is_rack_scale(node: Node) -> bool:
    """GPUs of several nodes share one NVLink fabric: NVL72 and its like."""
    product = (node.gpu_product or "").upper()
    return bool(node.labels.get("nvidia.com/gpu.clique")) or "GB200" in product or "GB300" in product


def _evidence(
    node: Node | None, found: Sequence[Heard], pods: Sequence[str], well: Sequence[str]
) -> Iterator[Evidence]:
    for one in {one.signal.line: one for one in found[:4]}.values():
        yield one.evidence
        if one.name == "fabric-manager-mismatch":
            words = one.signal.words
            versions = f"fabric manager {words['library']}, driver {words['kernel']}"
            yield Evidence("Versions", versions, source=one.source)
    yield Evidence(counted(len(pods), "pod"), listed(list(pods)), source="pods that said so")
    if node is not None:
        if node.gpu_product:
            yield Evidence("GPU", printable(node.gpu_product, 80), source="label nvidia.com/gpu.product")
        if node.driver_version:
            yield Evidence("Driver of the node", node.driver_version, source=f"labels of node {node.name}")
        if node.nvlink_domain:
            yield Evidence("NVLink domain", printable(node.nvlink_domain, 120), source="node labels")
    if well:
        yield Evidence("Work with their GPUs on the node", listed(list(well)), source="GPU metrics")


def _driver_pod(here: Sequence[Pod]) -> Pod | None:
    return next((p for p in here if component_label(p) == DRIVER and not p.is_finished), None)


def _look(driver: Pod | None) -> Step:
    if driver is not None:
        return steps.read_log(
            driver, "nvidia-driver-ctr", expect="That the fabric manager started, or why it could not."
        )
    return steps.look(
        title="Read the state of the service nvidia-fabricmanager on the node",
        why="The driver is the host's here, so the fabric manager is a service of the host: `systemctl status "
        "nvidia-fabricmanager`.",
        expect="That it runs, or why not: another version than the driver, or an NVSwitch that fails.",
    )


def _fix(node: Node | None, name: str, first: Heard, driver: Pod | None, *, is_rack: bool) -> Fix:
    version = f" {node.driver_version}" if node and node.driver_version else ""
    pod = first.pod
    looks = [
        steps.see_operator_pods_on_node(name),
        _look(driver),
        steps.read_kernel_log(name),
    ]  # fmt: skip
    repairs = [
        Step(
            kind=StepKind.FIX,
            title=f"Install and start nvidia-fabricmanager of exactly the driver's version{version}",
            why="It has to be the same version to the last digit, and to start at boot. Where the operator runs the "
            "driver, the driver's image brings it. Starting it disturbs nobody: no CUDA program runs there now.",
            risk=Risk.SAFE,
            expect="`nvidia-smi -q` shows the fabric's state as Completed and its status as Success.",
        )
    ]
    if is_rack:
        repairs.append(
            Step(
                kind=StepKind.FIX,
                title="Then see that the IMEX domain of the rack is up",
                why="On NVL72 racks CUDA waits for the IMEX daemons of the domain too. With ComputeDomains the DRA "
                "driver runs them, and the host's own nvidia-imex service has to be masked.",
                risk=Risk.DISRUPTIVE,
                expect="Every node of the domain is READY in `nvidia-imex-ctl -N`.",
            )
        )
    return Fix(
        summary="Have the fabric manager run in the driver's own version",
        steps=in_order(
            *looks,
            *repairs,
            Step(
                kind=StepKind.RESTORE,
                title=f"Start pod {printable(pod.name, 80)} anew",
                why="Only after the repair: it tries at once, and does not wait for its back-off.",
                risk=Risk.DISRUPTIVE,
                command=kubectl.delete_pod(pod.name, pod.namespace),
                expect="CUDA starts.",
            ),
            steps.verify_finding_gone("Pods on the node start CUDA, and the validator is ready."),
            steps.escalate(
                "the hardware team or NVIDIA support",
                why="A fabric manager that runs and still does not finish points to an NVSwitch or its links.",
                expect="SXid lines of the kernel log, and the fabric manager's own log.",
            ),
        ),
    )
