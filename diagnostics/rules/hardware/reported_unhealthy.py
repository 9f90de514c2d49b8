"""Somebody else found a GPU or its node unhealthy: the device plugin, or a health agent on the node.

## Meaning
The device plugin marks a GPU unhealthy after an Xid that it takes for critical, also when that was contained (94), and
as a rule does not take it back by itself. Health agents (node-problem-detector and its cloud flavours, NVSentinel,
gpud, the EKS node monitoring agent, …) write what they find into conditions of the node.

## Impact
The device is not given to pods any more: capacity is lost until the cause is repaired and the plugin starts anew.
Agents may cordon, drain or replace the node by themselves.

## Evidence
Device health in pod status (KEP-4680), the plugin's log on nodes that offer fewer GPUs than they have, node conditions.

## Not reported
Conditions that are as they should be, and those that are not about GPUs. NVML events that the plugin passes over
("Skipping non-nvmlEventTypeXidCriticalError event"). A mark in a log while the node offers all of its GPUs.

## References
https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/4680-add-resource-health-to-pod-status
https://github.com/NVIDIA/k8s-device-plugin
https://docs.aws.amazon.com/eks/latest/userguide/node-health.html
https://learn.microsoft.com/azure/aks/gpu-health-monitoring
"""

from collections.abc import Iterator

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject, Unjudged
from diagnostics.fixes import Fix, steps
from diagnostics.limits import Limits
from diagnostics.quantities import span
from diagnostics.rules.base import rule
from diagnostics.rules.hardware.board_fix import board_fix, vendor
from diagnostics.rules.hardware.cards import Card, ago, cards, xids_of
from diagnostics.rules.hardware.conditions import is_bad, topic
from diagnostics.rules.hardware.told import MARKED, Told, told
from diagnostics.snapshot import Condition, Gpu, Node, Snapshot, Source, XidSeen
from diagnostics.text import printable
from diagnostics.xid import XidAction

PASSED_OVER = frozenset({0, 13, 31, 43, 45, 68, 109})
"""Xids for which NVIDIA's device plugin gives no GPU up (k8s-device-plugin, internal/rm/health.go)."""


@rule(
    code="GPU109",
    slug="reported-unhealthy",
    severity=Severity.WARNING,
    needs={Source.NODES, Source.PODS},
    uses={Source.LOGS, Source.METRICS, Source.WINDOW},
    caused_by=("fatal-xid", "lost-gpu", "memory-errors", "nvlink-errors"),
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit | Unjudged]:
    """One hit per device that somebody marked, and one per node with bad conditions."""
    named: set[str] = set()
    can_read = snapshot.source(Source.LOGS).state.is_usable
    for card in cards(snapshot):
        marks = [t for t in card.told if t.signal.signal == MARKED]
        pods = _unhealthy_in(snapshot, card)
        xids = _critical(snapshot, card)
        if not pods and not ((marks or xids) and _misses_gpus(snapshot, card.node)):
            if any(g.is_healthy is False for g in card.gpus) and not can_read:
                yield Unjudged(
                    card.subject, "it is not offered, and the device plugin's log could not be read"
                )
            continue
        named.add(card.node)
        yield _device(snapshot, card, marks, pods, xids)
    for node, lines in _nameless(snapshot).items():
        if node not in named and _misses_gpus(snapshot, node):
            yield _marked_somewhere(snapshot, snapshot.node_by_name[node], lines)
    for node_ in snapshot.nodes:
        bad = [c for c in node_.conditions if is_bad(c)]
        if bad and node_.is_ready is not None:
            yield _conditions(snapshot, node_, bad)


def _unhealthy_in(snapshot: Snapshot, card: Card) -> list[tuple[str, str]]:
    """(pod, health) of what pod status says of the card, Unhealthy or Unknown."""
    uuids = {g.uuid for g in card.gpus if g.uuid}
    return [
        (key, device.health)
        for key in card.holders
        if (pod := snapshot.pod_by_key.get(key)) is not None and not pod.is_finished
        for device in pod.devices
        if device.device.partition("::")[0] in uuids and device.health in ("Unhealthy", "Unknown")
    ]


def _misses_gpus(snapshot: Snapshot, name: str) -> bool:
    node = snapshot.node_by_name.get(name)
    if node is None:
        return False
    return any(
        node.allocatable.get(resource, 0.0) < amount
        for resource, amount in node.capacity.items()
        if resource.startswith("nvidia.com/")
    ) or any(g.is_healthy is False for g in snapshot.gpus_by_node.get(name, []))


def _nameless(snapshot: Snapshot) -> dict[str, list[Told]]:
    """Marks of devices that no metric and no pod names."""
    found: dict[str, list[Told]] = {}
    for line in told(snapshot, {MARKED}):
        if line.slot is None and line.node in snapshot.node_by_name:
            found.setdefault(line.node, []).append(line)
    return found


def _critical(snapshot: Snapshot, card: Card) -> list[XidSeen]:
    """Xids for which the plugin gives a GPU up, seen to happen or still on the gauge."""
    seen = [x for x in xids_of(snapshot, card) if x.code not in PASSED_OVER]
    code = card.metric("xid")
    if code and code not in PASSED_OVER and code not in {x.code for x in seen}:
        seen.append(XidSeen(code=code))
    return seen


def _device(
    snapshot: Snapshot, card: Card, marks: list[Told], pods: list[tuple[str, str]], xids: list[XidSeen]
) -> Hit:
    facts = [Evidence("device health", health, source=f"pod status of {pod}") for pod, health in pods]
    facts += [line.evidence("device plugin") for line in marks[-2:]]
    facts += [_xid_fact(snapshot, x) for x in xids]
    if pods and all(health == "Unknown" for _, health in pods) and not marks:
        return _unknown(snapshot, card, facts)
    code = _code(marks)
    if code is None and xids:
        code = xids[-1].code
    cause = "device-left-unhealthy-after-xid" if code is not None else "device-unhealthy"
    which = f" after Xid {code}" if code is not None else ""
    when = f" It did so {ago(snapshot, marks[-1])}." if marks else ""
    return Hit(
        subject=card.subject,
        cause=cause,
        title=f"{card.name} on {card.node} is marked unhealthy{which}",
        summary=f"The device plugin took {card.name} out of service{which}.{when} As a rule it takes no GPU back "
        "by itself: the device stays out until it was reset and the plugin started anew, even if the GPU works again.",
        evidence=(*facts, *card.identity()),
        confidence=Confidence.HIGH if marks or pods else Confidence.MEDIUM,
        gpus=1,
        nodes=(card.node,),
        pods=card.holders,
        fix=board_fix(
            snapshot,
            card,
            XidAction.RESET_GPU,
            summary=f"Check {card.name} of {card.node}, reset it in a drain window, then restart the plugin there",
            look=(steps.describe_node(card.node),),
            gone="Allocatable equals capacity again.",
            why_escalate="A GPU that is marked again after the reset is a case for the vendor.",
        ),
    )


def _xid_fact(snapshot: Snapshot, xid: XidSeen) -> Evidence:
    if xid.last_at is not None:
        when = f"{span(snapshot.age(xid.last_at))} ago"
    elif xid.standing_since is not None:
        when = f"the gauge has shown it for at least {span(snapshot.age(xid.standing_since))}"
    else:
        when = "at an unknown time"
    return Evidence(f"Xid {xid.code}", when, source="Xid metric or kernel line")


def _code(marks: list[Told]) -> int | None:
    codes = [int(c) for line in marks if (c := line.signal.numbers.get("xid_code")) is not None]
    return codes[-1] if codes else None


def _unknown(snapshot: Snapshot, card: Card, facts: list[Evidence]) -> Hit:
    return Hit(
        subject=card.subject,
        cause="device-health-unknown",
        title=f"The health of {card.name} on {card.node} is unknown to the kubelet",
        summary="The plugin that gave the device out no longer reports on it: it is restarting, or gone. The device "
        "may well be sound.",
        evidence=(*facts, *card.identity()),
        severity=Severity.INFO,
        confidence=Confidence.MEDIUM,
        gpus=1,
        nodes=(card.node,),
        pods=card.holders,
        fix=Fix(
            f"See why the device plugin of {card.node} does not report",
            (
                steps.see_operator_pods_on_node(card.node),
                steps.describe_node(card.node),
                steps.verify_finding_gone("Pod status says Healthy again."),
            ),
        ),
    )


def _marked_somewhere(snapshot: Snapshot, node: Node, lines: list[Told]) -> Hit:
    code = _code(lines)
    which = f" after Xid {code}" if code is not None else ""
    return Hit(
        subject=Subject.of_node(node),
        cause="device-left-unhealthy-after-xid" if code is not None else "device-unhealthy",
        title=f"The device plugin of node {node.name} marked a GPU unhealthy{which}",
        summary=f"The device plugin took a GPU out of service{which}. As a rule it takes none back by itself: "
        "the device stays out until it was reset and the plugin started anew, even if the GPU works again.",
        evidence=(
            *(line.evidence("device plugin") for line in lines[-3:]),
            Evidence("capacity", f"{_amount(node.capacity)}", "GPUs", "status.capacity"),
            Evidence("allocatable", f"{_amount(node.allocatable)}", "GPUs", "status.allocatable"),
        ),
        gpus=1,
        nodes=(node.name,),
        fix=_marked_fix(snapshot, node, lines),
    )


def _marked_fix(snapshot: Snapshot, node: Node, lines: list[Told]) -> Fix:
    """With the reset of the GPU, where the line has its UUID."""
    summary = (
        f"Check the marked GPU of {node.name}, reset it in a drain window, then restart the plugin there"
    )
    gone, why = (
        "Allocatable equals capacity again.",
        "A GPU that is marked again after the reset is a case for the vendor.",
    )
    words = lines[-1].signal.words
    uuid = words.get("device") or words.get("marked")
    if uuid:
        gpu = Gpu(slot=f"{node.name}/{uuid}", node=node.name, uuid=uuid)
        card = Card(gpu.slot, (gpu,), is_measured=False)
        look = (steps.describe_node(node.name),)
        return board_fix(
            snapshot, card, XidAction.RESET_GPU, summary=summary, look=look, gone=gone, why_escalate=why
        )
    return Fix(
        summary,
        (
            steps.describe_node(node.name),
            steps.see_operator_pods_on_node(node.name),
            steps.read_kernel_log(node.name),
            steps.cordon(node.name),
            steps.verify_finding_gone(gone),
            vendor(why),
        ),
    )


def _amount(amounts: dict[str, float]) -> str:
    return f"{sum(v for k, v in amounts.items() if k.startswith('nvidia.com/')):.0f}"


def _conditions(snapshot: Snapshot, node: Node, bad: list[Condition]) -> Hit:
    worst = bad[0]
    about = topic(worst)
    named = printable(worst.type, 80)
    gpus = len(snapshot.gpus_by_node.get(node.name, []))
    return Hit(
        subject=Subject.of_node(node),
        cause=about.cause,
        title=f"Node {node.name}: condition {named} says {about.words}",
        summary=f"A health agent on the node reports {about.words} (condition {named}, {printable(worst.reason, 80)}), "
        f"since {span(snapshot.age(worst.since))}. It may cordon or replace the node by itself.",
        evidence=tuple(
            Evidence(
                printable(c.type, 80),
                printable(f"{c.status}, {c.reason}: {c.message}", 400),
                source=f"status.conditions, since {span(snapshot.age(c.since))}",
            )
            for c in bad
        ),
        confidence=Confidence.HIGH if about.is_known else Confidence.MEDIUM,
        gpus=gpus if about.is_whole_node else min(1, gpus),
        nodes=(node.name,),
        fix=Fix(
            f"Read what the agent of {node.name} found, and follow it",
            (
                steps.describe_node(node.name),
                steps.see_pods_on_node(node.name),
                steps.read_kernel_log(node.name),
                steps.cordon(node.name),
                steps.verify_finding_gone("The condition changes back; then uncordon the node."),
                vendor("A condition that comes back after reset and reboot is a case for the vendor."),
            ),
        ),
    )
