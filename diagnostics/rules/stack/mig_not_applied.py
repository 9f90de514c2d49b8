"""A node's MIG layout was asked for and is not there.

## Meaning
The label `nvidia.com/mig.config` names a layout, and the MIG manager reports in `nvidia.com/mig.config.state` that it
failed, or that it has been at it for longer than `mig_pending_after`. A change of the MIG mode needs a reset of the
GPUs, which anything that has them open prevents; a layout must be one that the model supports.

## Impact
The node offers its old layout or nothing: pods that ask for the new instances wait, and the operator may keep its
device plugin and its metrics switched off meanwhile.

## Evidence
The node's MIG labels; the MIG manager's log; the pods that hold GPUs of the node; the profiles of its GPU model; since
when earlier polls saw the change pending, or when the log says that it began.

## Not reported
A change that was only just begun; nodes without a MIG manager's state; a layout that was applied. A pending change
whose beginning is not known is not judged.

## References
https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-mig.html
https://github.com/NVIDIA/mig-parted
"""

from collections.abc import Iterator
from datetime import datetime

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject, Unjudged
from diagnostics.limits import Limits
from diagnostics.mig_profiles import profile_in, supported
from diagnostics.operator_components import COMPONENTS, component_label
from diagnostics.quantities import span
from diagnostics.rules.base import rule
from diagnostics.rules.stack.failures import message_of, signals_of
from diagnostics.rules.stack.mig_fix import mig_fix
from diagnostics.rules.stack.said import RESET_BLOCKED, cause_of
from diagnostics.snapshot import LogSignal, Node, Pod, Snapshot, Source
from diagnostics.text import listed, printable

CONFIG = "nvidia.com/mig.config"
STATE = "nvidia.com/mig.config.state"
PENDING = {"pending", "rebooting"}
_MIG_CAUSES = {RESET_BLOCKED, "mig-config-unknown", "mig-profile-not-supported", "mig-mode-needs-reset"}


@rule(
    code="GPU208",
    slug="mig-not-applied",
    severity=Severity.WARNING,
    needs={Source.NODES},
    uses={Source.PODS, Source.LOGS},
    caused_by=("operator-component-failing",),
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit | Unjudged]:
    """One hit per node whose MIG configuration failed or does not come to an end."""
    for node in snapshot.nodes:
        state = node.labels.get(STATE, "")
        if state not in PENDING | {"failed"}:
            continue
        subject = Subject.of_node(node)
        managers = [p for p in snapshot.pods_by_node.get(node.name, []) if _is_manager(p)]
        told = [s for p in managers for s in snapshot.signals_by_pod.get(p.key, [])]
        told += [s for p in managers for c in p.containers for s in signals_of(message_of(c))]
        since = _since(snapshot, node, told)
        if state in PENDING:
            age = snapshot.age(since)
            if age is None:
                yield Unjudged(subject, f"its MIG state is {state}, and since when is not known")
                continue
            if age < limits.of(subject).values.mig_pending_after:
                continue
        yield _hit(snapshot, node, state, managers, told, since)


def _is_manager(pod: Pod) -> bool:
    label = component_label(pod)
    return label is not None and COMPONENTS[label] == "MIG manager" and not pod.is_finished


def _since(snapshot: Snapshot, node: Node, told: list[LogSignal]) -> datetime | None:
    """The earlier of what the polls and the log know."""
    began = [s.at for s in told if s.signal == "mig-config-started" and s.at is not None]
    seen = snapshot.past.mig_pending.get(node.name)
    times = [*began[-1:], *([seen] if seen else [])]
    return min(times, default=None)


def _hit(
    snapshot: Snapshot,
    node: Node,
    state: str,
    managers: list[Pod],
    told: list[LogSignal],
    since: datetime | None,
) -> Hit:
    config = node.labels.get(CONFIG, "")
    holders = [p for p in snapshot.pods_by_node.get(node.name, []) if p.holds_gpus]
    cause, line = cause_of(told)
    profile, known = profile_in(config), supported(node.gpu_product or "")
    if cause not in _MIG_CAUSES:
        line = ""
        impossible = known is not None and (not known or (profile is not None and profile not in known))
        cause = "mig-profile-not-supported" if impossible else None
    evidence = [
        Evidence("MIG state", state, source=STATE),
        Evidence("Asked for", printable(config, 80) or "nothing", source=CONFIG),
    ]
    if since is not None and state in PENDING:
        evidence.append(
            Evidence("For", span(snapshot.age(since)), source="earlier polls, or the MIG manager's log")
        )
    if line:
        evidence.append(
            Evidence("The MIG manager said", printable(line, 400), source="log of the MIG manager")
        )
    named = listed([p.key for p in holders], 4) if holders else "none: it is no workload that has them open"
    evidence.append(Evidence("Pods that hold its GPUs", named, source="spec.nodeName, resource limits"))
    if node.gpu_product:
        evidence.append(Evidence("GPU model", node.gpu_product, source="nvidia.com/gpu.product"))
    if known is not None and cause == "mig-profile-not-supported":
        evidence.append(Evidence("Its profiles", listed(sorted(known), 12), source="NVIDIA MIG User Guide"))
    how = "failed" if state == "failed" else f"is {state} for {span(snapshot.age(since))}"
    slug = cause or ("mig-config-failed" if state == "failed" else "mig-config-stuck")
    return Hit(
        subject=Subject.of_node(node),
        cause=slug,
        title=f"MIG layout {printable(config, 60) or 'of the node'} {how} on node {node.name}",
        summary=f"The layout that the node's label asks for is not there. {_WORDS[slug]}",
        evidence=tuple(evidence),
        confidence=Confidence.HIGH if cause else Confidence.MEDIUM,
        gpus=len({gpu.pci or gpu.slot for gpu in snapshot.gpus_by_node.get(node.name, [])}),
        nodes=(node.name,),
        pods=tuple(p.key for p in managers),
        fix=mig_fix(node, managers, holders, slug, known),
    )


_WORDS = {
    RESET_BLOCKED: "The change needs a reset of the GPUs, and something has them open: a pod, or on the host a kernel "
    "module such as nvidia_drm, a persistence daemon, a display server or monitoring.",
    "mig-mode-needs-reset": "The MIG mode is switched but only takes effect after a reset or a reboot.",
    "mig-config-unknown": "The MIG manager's configuration file has no layout of that name.",
    "mig-profile-not-supported": "These GPUs cannot be divided that way.",
    "mig-config-failed": "The MIG manager's log names the reason.",
    "mig-config-stuck": "The MIG manager has not said that it came to an end.",
}
