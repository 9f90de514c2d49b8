"""NVML, and with it the driver, does not answer on a node or inside a container.

## Meaning
Every tool asks the driver through NVML. It fails for reasons that need different repairs: the driver's library and its
kernel module differ after an upgrade; the module is not loaded; the driver hangs; or one container alone has lost its
device files, because systemd was reloaded on the node, or may not open them.

## Impact
Node: no new container gets a GPU, monitoring stops, and CUDA programs cannot start. Container: it cannot start new CUDA
work, though what runs already may go on; others on the node are well.

## Evidence
Messages of NVML, nvidia-container-cli and the kernel in logs, container states and events, by node; which other pods of
the node work with their GPUs; the node's driver label and container runtime.

## Not reported
`Failed to initialize NVML` in a container that was given no GPU, and libraries that are not found: those are not the
driver's. A GPU that is lost. Errors older than `cuda_error_recent`, and of pods whose owner succeeded since.

## References
https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html
https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/troubleshooting.html
https://github.com/NVIDIA/nvidia-container-toolkit/issues/48
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject
from diagnostics.limits import Limits
from diagnostics.operator_components import component_label
from diagnostics.rules.base import rule
from diagnostics.rules.stack.heard import Heard, heard, uses_its_gpu
from diagnostics.rules.stack.nvml_fix import nvml_fix
from diagnostics.snapshot import Pod, Snapshot, Source
from diagnostics.snapshot.gpu_intent import asks_for_gpu
from diagnostics.text import counted, listed

MISMATCH, NOT_LOADED, HANGING = "driver-library-mismatch", "driver-not-loaded", "driver-not-responding"
LOST_ACCESS, NO_PERMISSION = "device-access-lost-after-reload", "nvml-insufficient-permissions"
UNKNOWN = "cuda-initialisation-fails"

_SIGNATURES = {
    "nvml-failed": "",
    "nvrm-api-mismatch": MISMATCH,
    "host-driver-missing": NOT_LOADED,
    "driver-module-not-loaded": NOT_LOADED,
    "driver-not-responding": HANGING,
    "cuda-unknown-error": UNKNOWN,
}
"""Signature -> cause; empty: the words decide."""
_BY_WORDS = (
    ("mismatch", MISMATCH),
    ("not loaded", NOT_LOADED),
    ("driver_not_loaded", NOT_LOADED),
    ("permission", NO_PERMISSION),
    ("unknown", LOST_ACCESS),
)
_OF_NODE = (MISMATCH, NOT_LOADED, HANGING)
"""Causes that befall a node, the most telling first; the others befall a container."""
_WORDS = {
    MISMATCH: (
        "driver library and kernel module differ",
        "The driver's user-space library was replaced while the old kernel module is still loaded, as an upgrade on "
        "the host does. No CUDA program can start there until the module is reloaded or the node is rebooted; what "
        "runs already goes on.",
    ),
    NOT_LOADED: (
        "the NVIDIA kernel module is not loaded",
        "The kernel module of the driver is not there, so that no container gets a GPU and none is usable.",
    ),
    HANGING: (
        "the driver does not answer",
        "The driver was asked and did not answer in time: as a rule a GPU hangs or is lost, and the kernel log "
        "names it.",
    ),
    LOST_ACCESS: (
        "the container has lost access to its GPUs",
        "NVML answers `Unknown Error` inside a container that was given GPUs: its device files are there, but its "
        "cgroup no longer allows them. That happens when systemd is reloaded on the node and the container was "
        "started by the older runtime hook. GPU and driver are well.",
    ),
    UNKNOWN: (
        "CUDA fails to start with an unknown error",
        "CUDA answers 999, unknown error, in a container that was given a GPU: its device files are incomplete "
        "(/dev/nvidia-uvm, as a rule), it may no longer open them, or the driver of the node is in a bad state.",
    ),
    NO_PERMISSION: (
        "the container may not open the GPU's device files",
        "NVML answers `Insufficient Permissions`: a security policy (SELinux, as a rule) or the files' owner keeps "
        "the container from the devices that it was given.",
    ),
}


@rule(
    code="GPU205",
    slug="nvml-failing",
    severity=Severity.CRITICAL,
    needs={Source.PODS},
    uses={Source.NODES, Source.LOGS, Source.EVENTS, Source.METRICS},
    caused_by=("fatal-xid",),
    hold=1,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    """One hit per node whose driver fails, one per root owner whose containers alone have lost it."""
    of_node: dict[Subject, list[tuple[str, Heard]]] = defaultdict(list)
    of_owner: dict[Subject, list[tuple[str, Heard]]] = defaultdict(list)
    for one in heard(snapshot, limits, _SIGNATURES):
        cause = _cause(one)
        if cause == NOT_LOADED and _driver_fails(snapshot, one.pod.node):
            continue  # the operator's driver pod says why: its own rule names the cause
        if cause in _OF_NODE and one.pod.node:
            node = snapshot.node_by_name.get(one.pod.node)
            subject = Subject.of_node(node) if node else Subject(kind="Node", name=one.pod.node)
            of_node[subject].append((cause, one))
        elif cause and (asks_for_gpu(one.pod, one.container) or component_label(one.pod)):
            of_owner[Subject.of_pod(one.pod)].append((cause, one))
    for subject, found in of_node.items():
        found.sort(key=lambda pair: (_OF_NODE.index(pair[0]), pair[1].pod.key))
        yield _hit(snapshot, subject, found)
    broken = {subject.name for subject in of_node}
    for subject, found in of_owner.items():
        elsewhere = [pair for pair in found if pair[1].pod.node not in broken]
        if elsewhere:
            yield _hit(snapshot, subject, sorted(elsewhere, key=lambda pair: (pair[0] == UNKNOWN, pair[0])))


def _driver_fails(snapshot: Snapshot, node: str | None) -> bool:
    pods = snapshot.pods_by_node.get(node or "", ())
    return any(component_label(p) == "nvidia-driver-daemonset" and not p.is_ready for p in pods)


def _cause(one: Heard) -> str:
    """The cause that a message names; empty where it is no fault of the driver."""
    if one.name == "host-driver-missing" and "alidate" in one.signal.line and component_label(one.pod):
        return ""  # the operator's validation waits for the driver: its own rule names what it waits for
    known = _SIGNATURES[one.name]
    if known:
        return known
    words = one.signal.words.get("why", "").lower()
    return next((cause for word, cause in _BY_WORDS if word in words), "")


def _hit(snapshot: Snapshot, subject: Subject, found: Sequence[tuple[str, Heard]]) -> Hit:
    cause, first = found[0]
    same = [one for slug, one in found if slug == cause]
    pods = tuple(sorted({one.pod.key for _, one in found}))
    nodes = tuple(sorted({one.pod.node for _, one in found if one.pod.node}))
    is_node = subject.kind == "Node"
    what, summary = _WORDS[cause]
    touched = [snapshot.pod_by_key[key] for key in pods]
    gpus = len(snapshot.gpus_by_node.get(subject.name, ())) if is_node else sum(p.gpu_count for p in touched)
    well = [] if not is_node else _well(snapshot, subject.name, pods)
    return Hit(
        subject=subject,
        cause=cause,
        title=f"Node {subject.name}: {what}" if is_node else f"{subject}: {what}",
        summary=summary,
        evidence=tuple(_evidence(snapshot, same, pods, well)),
        confidence=_confidence(cause, first, well),
        fix=nvml_fix(snapshot, cause, first.pod, first.container),
        gpus=gpus,
        nodes=nodes,
        pods=pods,
    )


def _confidence(cause: str, first: Heard, well: Sequence[str]) -> Confidence:
    """Unknown Error has rarer reasons too; a driver that others work with cannot be gone altogether."""
    if cause == LOST_ACCESS:
        return Confidence.HIGH if first.container.state == "running" else Confidence.MEDIUM
    if cause == MISMATCH:
        return Confidence.HIGH
    if cause == UNKNOWN:
        return Confidence.MEDIUM
    return Confidence.MEDIUM if well else Confidence.HIGH


def _well(snapshot: Snapshot, node: str, failing: Sequence[str]) -> list[str]:
    """Other pods of the node whose GPUs do something now."""
    pods: Sequence[Pod] = snapshot.pods_by_node.get(node, [])
    return [p.key for p in pods if p.gpus and p.key not in failing and uses_its_gpu(snapshot, p)]


def _evidence(
    snapshot: Snapshot, same: Sequence[Heard], pods: Sequence[str], well: Sequence[str]
) -> Iterator[Evidence]:
    for one in {one.signal.line: one for one in same[:4]}.values():
        yield one.evidence
        for word in ("library", "kernel"):
            if word in one.signal.words:
                yield Evidence(f"Version of the {word}", one.signal.words[word], source=one.source)
    node = snapshot.node_by_name.get(same[0].pod.node or "")
    if node is not None and node.driver_version:
        yield Evidence(
            "Driver, as feature discovery saw it last",
            node.driver_version,
            source=f"labels of node {node.name}",
        )
    if node is not None and node.container_runtime:
        yield Evidence("Container runtime", node.container_runtime, source=f"status of node {node.name}")
    yield Evidence(counted(len(pods), "pod"), listed(list(pods)), source="pods that said so")
    if well:
        yield Evidence("Work with their GPUs on the node", listed(list(well)), source="GPU metrics")
