"""The device plugin of a node is down, because another component of the GPU operator is.

## Meaning
The plugin, or the driver for dynamic resource allocation in its place, offers the node's GPUs to Kubernetes. It waits
for the driver and the container toolkit, or fails without them. One of them fails on this node, so that the plugin
cannot serve: it is a symptom, and so is what follows from it.

## Impact
Without the plugin the node offers no GPU: allocatable falls to 0, and pods that could run there wait. Running pods keep
their GPUs.

## Evidence
State of the plugin's containers, the init container that waits, the component that fails before it; age from the pod's
own timestamps.

## Not reported
A plugin that fails for a reason of its own or with nothing failing before it, which is an operator component failing;
a plugin that waits while its node starts (`operator_failing_after`); a node with another plugin that is ready.

## References
https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/troubleshooting.html
"""

from collections.abc import Iterator

from diagnostics.findings import Evidence, Hit, Severity, Subject
from diagnostics.fixes import Fix, steps
from diagnostics.limits import Limits
from diagnostics.operator_components import COMPONENTS, ORDER, component_label
from diagnostics.quantities import span
from diagnostics.rules.base import rule
from diagnostics.rules.stack.failing_places import failing_by_place
from diagnostics.rules.stack.failures import Failure
from diagnostics.snapshot import Pod, Snapshot, Source
from diagnostics.text import printable

PLUGINS = {"device plugin", "DRA plugin"}


@rule(
    code="GPU211",
    slug="device-plugin-waiting",
    severity=Severity.CRITICAL,
    needs={Source.PODS},
    uses={Source.NODES, Source.EVENTS, Source.LOGS},
    caused_by=("operator-component-failing",),
    hold=1,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    """One hit per node whose plugin is down behind another component."""
    for subject, failing in failing_by_place(snapshot, limits).items():
        (first, failure), *others = failing
        if subject.kind != "Node" or failure.is_victim or _component(first) in PLUGINS:
            continue
        down = next((pair for pair in others if _is_behind(first, pair[0])), None)
        if down is not None and not _has_another(snapshot, first.node):
            yield _hit(snapshot, subject, first, *down)


def _component(pod: Pod) -> str:
    return COMPONENTS[component_label(pod) or "gpu-operator"]


def _is_behind(first: Pod, pod: Pod) -> bool:
    """A plugin, and one that starts after the component that fails."""
    place, before = (ORDER[component_label(one) or "gpu-operator"] for one in (pod, first))
    return _component(pod) in PLUGINS and before < place


def _has_another(snapshot: Snapshot, node: str | None) -> bool:
    here = snapshot.pods_by_node.get(node or "", [])
    return any(pod.is_ready and _component(pod) in PLUGINS for pod in here if component_label(pod))


def _hit(snapshot: Snapshot, subject: Subject, first: Pod, pod: Pod, failure: Failure) -> Hit:
    component, before = _component(pod), _component(first)
    waits = failure.is_victim or failure.how == "sandbox"
    verb = "waits for" if waits else "fails behind"
    node = printable(subject.name, 120)
    return Hit(
        subject=subject,
        cause=f"{component.lower().replace(' ', '-')}-{'waits' if waits else 'fails'}-behind-"
        f"{before.lower().replace(' ', '-')}",
        title=f"{component[0].upper()}{component[1:]} on node {node} is down: it {verb} the {before}",
        summary=f"The {component} pod {printable(pod.name, 120)} cannot serve, since the {before} of the node is not "
        "ready. Without it the node offers no GPU to new pods; running ones keep theirs.",
        evidence=(
            Evidence("Pod", printable(pod.key, 200), source="metadata.name"),
            Evidence(
                "Container",
                f"{printable(failure.container.name, 80)}: {failure.container.waiting_reason or failure.how}",
                source="status.initContainerStatuses[], status.containerStatuses[]",
            ),
            Evidence(
                "Age of the pod", span(snapshot.age(pod.created_at)), source="metadata.creationTimestamp"
            ),
            Evidence(f"Not ready: {before}", printable(first.key, 200), source="containerStatuses"),
        ),
        gpus=len(snapshot.gpus_by_node.get(subject.name, ())),
        nodes=(subject.name,),
        pods=(pod.key,),
        fix=Fix(
            f"Repair the {before}: this one then starts by itself",
            (
                steps.see_operator_pods_on_node(subject.name, pod.namespace),
                steps.describe_pod(pod),
                steps.verify_finding_gone(
                    f"The {component} is Ready once the {before} is: there is nothing to do here."
                ),
            ),
        ),
    )
