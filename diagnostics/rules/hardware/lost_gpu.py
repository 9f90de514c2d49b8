"""A GPU that the node had does not answer any more: it fell off the bus, or driver and NVML cannot reach it.

## Meaning
The board is gone from the PCIe bus, or it does not answer there: by the kernel's own words, with or without an Xid 79;
by what `nvidia-smi` and NVML say (GPU is lost, Unknown Error, ERR!); or because its metrics ended while its neighbours
go on and the node offers fewer GPUs than before.

## Impact
What ran on it is dead or hangs. `nvidia-smi` and whatever asks all GPUs of the node may hang with it. After a reboot
the node may come up with one GPU less.

## Evidence
Kernel lines and tools' messages in logs, node events and node conditions; metrics of the GPU and of its neighbours;
slots that earlier polls knew.

## Not reported
A node without any metrics: its exporter is down. A GPU whose metrics are missing while the node offers all of its GPUs.
Nodes that are not Ready. `No devices were found` in a pod of users: that pod may have asked for no GPU.

## References
https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html
"""

from collections import defaultdict
from collections.abc import Iterator

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject, Unjudged
from diagnostics.limits import Limits
from diagnostics.operator_components import component_label
from diagnostics.quantities import span
from diagnostics.rules.base import rule
from diagnostics.rules.hardware.board_fix import board_fix
from diagnostics.rules.hardware.cards import Card, ago, cards
from diagnostics.rules.hardware.told import LOST, NO_DEVICES, Told, told
from diagnostics.snapshot import Gpu, Snapshot, Source, SourceState
from diagnostics.xid import XidAction

FELL = "gpu-fallen-off-bus"
_CAUSES = {
    "gpu-fallen-off-bus": FELL,
    "gpu-init-failed": "gpu-not-initialised",
    "gpu-power-missing": "auxiliary-power-missing",
}
_WORDS = {
    FELL: "it has fallen off the bus",
    "auxiliary-power-missing": "its power cables are not connected",
    "gpu-not-initialised": "the driver cannot initialise it",
    "gpu-not-answering": "driver and NVML cannot reach it",
    "gpu-vanished": "its metrics ended and the node no longer offers it",
    "no-gpu-answers": "no GPU answers any more",
}


@rule(
    code="GPU107",
    slug="lost-gpu",
    severity=Severity.CRITICAL,
    needs={Source.NODES},
    uses={Source.METRICS, Source.PODS, Source.LOGS, Source.EVENTS},
    caused_by=("fatal-xid",),
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit | Unjudged]:
    """One hit per board; where a line names no board, one per node."""
    on_node: dict[str, list[Card]] = defaultdict(list)
    named: set[str] = set()
    for card in cards(snapshot):
        on_node[card.node].append(card)
    for card in (c for many in on_node.values() for c in many):
        recent = limits.of(card.subject).values.xid_recent
        lines = [
            t
            for t in card.told
            if t.signal.signal in LOST and (snapshot.age(t.signal.at) or recent) <= recent
        ]
        if lines:
            named.add(card.node)
            yield _told(snapshot, card, lines)
        elif _is_silent(snapshot, card):
            # Some exporters may be down: that the node's own one is not, its neighbours prove.
            if snapshot.source(Source.METRICS).state not in (SourceState.OK, SourceState.PARTIAL):
                yield Unjudged(card.subject, "it is not offered, and there are no fresh metrics")
            elif any(c.answers for c in on_node[card.node]):
                named.add(card.node)
                yield _silent(snapshot, card, on_node[card.node])
    for node, lines in _nameless(snapshot).items():
        if node not in named:
            yield _of_node(snapshot, node, lines)


def _is_silent(snapshot: Snapshot, card: Card) -> bool:
    """It measured once and does not now, and the node does not offer it."""
    node = snapshot.node_by_name.get(card.node)
    is_known = card.gpu.pci is not None and card.is_measured
    is_withdrawn = any(g.is_healthy is False for g in card.gpus)
    return node is not None and node.is_ready is not False and is_known and is_withdrawn and not card.answers


def _told(snapshot: Snapshot, card: Card, lines: list[Told]) -> Hit:
    gravest = min(lines, key=lambda t: LOST.index(t.signal.signal))
    cause = _CAUSES.get(gravest.signal.signal, "gpu-not-answering")
    facts = [line.evidence("words") for line in lines[-3:]]
    return _hit(snapshot, card, cause, facts, f"That was said {ago(snapshot, gravest)}.")


def _silent(snapshot: Snapshot, card: Card, neighbours: list[Card]) -> Hit:
    worked = max((at for g in card.gpus if (at := snapshot.past.last_active.get(g.slot))), default=None)
    others = sum(c.answers for c in neighbours)
    facts = [
        Evidence("metrics of this GPU", "none", source="all series of the last poll"),
        Evidence("GPUs of the node with metrics", str(others), "GPUs", "same poll"),
        Evidence("offered to pods", "no", source="status.allocatable or pod status"),
    ]
    if worked is not None:
        facts.append(Evidence("it worked last", f"{span(snapshot.age(worked))} ago", source="earlier polls"))
    return _hit(snapshot, card, "gpu-vanished", facts, "Its neighbours on the node go on.")


def _hit(snapshot: Snapshot, card: Card, cause: str, facts: list[Evidence], more: str) -> Hit:
    words = _WORDS[cause]
    return Hit(
        subject=card.subject,
        cause=cause,
        title=f"{card.name} on {card.node} is lost: {words}",
        summary=f"{card.name} does not answer: {words}. {more} Pods that hold it have to be ended, and the node needs "
        "a reboot, mostly with a power cycle.",
        evidence=(*facts, *card.identity()),
        confidence=Confidence.MEDIUM if cause == "gpu-vanished" else Confidence.HIGH,
        gpus=1,
        nodes=(card.node,),
        pods=card.holders,
        fix=board_fix(
            snapshot,
            card,
            XidAction.CHECK_MECHANICALS if cause == "auxiliary-power-missing" else XidAction.REBOOT,
            summary=f"Drain {card.node}, power it off and on, and see whether {card.name} comes back",
            gone="The GPU has metrics again, and the node offers all of its GPUs.",
            why_escalate="A GPU that is lost again after a power cycle has a bad seat, riser, power supply or board.",
        ),
    )


def _nameless(snapshot: Snapshot) -> dict[str, list[Told]]:
    """Lines that name no board: NVML's `GPU is lost`, and `No devices were found` of a component of the node."""
    found: dict[str, list[Told]] = defaultdict(list)
    for line in told(snapshot, {*LOST, NO_DEVICES}):
        if line.slot is not None:
            continue
        pod = snapshot.pod_by_key.get(line.signal.pod_key)
        is_component = pod is None or component_label(pod) is not None
        if line.signal.signal != NO_DEVICES or (is_component and _had_gpus(snapshot, line.node)):
            found[line.node].append(line)
    return found


def _had_gpus(snapshot: Snapshot, name: str) -> bool:
    """The node had GPUs, and none of them measures anything now."""
    gpus = snapshot.gpus_by_node.get(name, [])
    return bool(gpus) and not any(g.metrics is not None for g in gpus)


def _of_node(snapshot: Snapshot, name: str, lines: list[Told]) -> Hit:
    node = snapshot.node_by_name.get(name)
    all_gone = lines[-1].signal.signal == NO_DEVICES
    cause = "no-gpu-answers" if all_gone else "gpu-not-answering"
    gpus = snapshot.gpus_by_node.get(name, [])
    what = _WORDS[cause] if all_gone else "driver and NVML cannot reach one of its GPUs"
    return Hit(
        subject=Subject.of_node(node)
        if node is not None
        else Subject(kind="Node", name=name, api_version="v1"),
        cause=cause,
        title=f"Node {name}: {what}",
        summary=f"On node {name} {what}; which one the message does not say. Pods there fail or hang, and the node "
        "needs a reboot, mostly with a power cycle.",
        evidence=tuple(line.evidence("words") for line in lines[-3:]),
        confidence=Confidence.MEDIUM,
        gpus=len(gpus) if all_gone else 1,
        nodes=(name,),
        fix=board_fix(
            snapshot,
            Card(f"{name}/?", tuple(gpus) or (Gpu(slot=f"{name}/?", node=name),)),
            XidAction.REBOOT,
            summary=f"Drain {name}, power it off and on, and see whether all of its GPUs come back",
            gone="The node offers all of its GPUs and each has metrics.",
            why_escalate="A GPU that is lost again after a power cycle has a bad seat, riser, power supply or board.",
        ),
    )
