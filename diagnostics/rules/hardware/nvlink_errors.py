"""NVLink between GPUs of a node, or of a rack, has errors, trains anew, or is down.

## Meaning
A link that recovers was interrupted and trained anew; NVIDIA's guide takes it for the forerunner of Xid 74. A few CRC
errors are normal, since they are repeated unseen; a high rate is a bad link. A fatal error of an NVSwitch (SXid)
concerns every GPU of its board.

## Impact
Collectives slow down or hang, and a job on all of the node's GPUs ends when a link fails for good.

## Evidence
By how much the link counters of DCGM rose over the window; `nvidia-smi nvlink --status` and SXid lines in logs and node
events.

## Not reported
Counters that merely stand, and CRC errors below `nvlink_crc_errors_per_h_max`. Boards without NVLink. NVLink 5 leaves
the older CRC counters at 0 and has counters of its own. A board with no active link at all: no bridge is fitted.

## References
https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html
"""

import re
from collections.abc import Iterator

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject, Unjudged
from diagnostics.fixes import steps
from diagnostics.limits import Limits
from diagnostics.quantities import span
from diagnostics.rules.base import rule
from diagnostics.rules.hardware.board_fix import board_fix
from diagnostics.rules.hardware.cards import Card, ago, card_slot, cards
from diagnostics.rules.hardware.told import LINK_DOWN, LINK_UP, SWITCH, Told, told
from diagnostics.snapshot import Gpu, Snapshot, Source
from diagnostics.text import listed
from diagnostics.xid import XidAction

CRC = ("nvlink_crc_flit_errors", "nvlink_crc_data_errors", "nvlink_replays")
RECOVERIES = ("nvlink_recoveries", "nvlink_recovery_failures")
_FATAL = re.compile(r"(?<!Non)(?<!Non-)\bFatal\b")


@rule(
    code="GPU104",
    slug="nvlink-errors",
    severity=Severity.WARNING,
    needs={Source.NODES, Source.METRICS},
    uses={Source.WINDOW, Source.LOGS, Source.EVENTS},
    caused_by=("fatal-xid",),
    hold=1,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit | Unjudged]:
    """One hit per GPU with a bad link, and one per node whose switch failed."""
    down: dict[str, list[Told]] = {}
    linked = {line.signal.pod_key for line in told(snapshot, {LINK_UP})}
    for line in told(snapshot, {LINK_DOWN}):
        slots = {card_slot(gpu) for gpu in snapshot.gpus_by_pod.get(line.signal.pod_key, [])}
        if len(slots) == 1 and line.signal.pod_key in linked:
            down.setdefault(slots.pop(), []).append(line)
    for card in cards(snapshot):
        values = limits.of(card.subject).values
        found = _of_card(card, down.get(card.slot, []), values.nvlink_crc_errors_per_h_max)
        if found is not None:
            yield _hit(snapshot, card, *found)
        elif (
            card.answers
            and any(card.metric(c) is not None for c in (*CRC, *RECOVERIES))
            and all(card.grown(c) is None for c in (*CRC, *RECOVERIES))
        ):
            yield Unjudged(card.subject, "its NVLink counters have no window yet")
    for node, lines in _switches(snapshot).items():
        yield _of_switch(snapshot, node, lines)


Found = tuple[str, str, list[Evidence]]
"""Cause, what is wrong, and the facts."""


def _of_card(card: Card, down: list[Told], most_per_h: float) -> Found | None:
    facts = [
        Evidence(
            c.replace("_", " "),
            f"{grown:.0f} more in {span(card.span)}",
            source=f"NVLink counter of {card.slot}",
        )
        for c in (*RECOVERIES, *CRC)
        if (grown := card.grown(c))
    ]
    hours = card.span.total_seconds() / 3600 if card.span else 0.0
    crc = max((card.grown(c) or 0.0 for c in CRC), default=0.0)
    if card.grown("nvlink_recovery_failures"):
        return "nvlink-down", "an NVLink failed and did not come back", facts
    if down:
        links = sorted({f"{line.signal.numbers.get('link_index', 0):.0f}" for line in down})
        return (
            "nvlink-down",
            f"NVLink {listed(links)} is inactive",
            [*facts, down[-1].evidence("nvlink status")],
        )
    if card.grown("nvlink_recoveries"):
        return "nvlink-recovering", "an NVLink was interrupted and trained anew", facts
    if hours and crc / hours > most_per_h:
        facts.append(Evidence("rate", f"{crc / hours:.0f}", "errors/h", f"limit {most_per_h:.0f}"))
        return "nvlink-crc-errors", "an NVLink repeats much of what it sends", facts
    return None


def _hit(snapshot: Snapshot, card: Card, cause: str, what: str, facts: list[Evidence]) -> Hit:
    is_down = cause == "nvlink-down"
    return Hit(
        subject=card.subject,
        cause=cause,
        title=f"{card.name} on {card.node}: {what}",
        summary=f"On {card.name} {what}. Jobs that talk over it slow down"
        + (" or hang." if is_down else "; links that do this tend to fail for good (Xid 74)."),
        evidence=(*facts, *card.identity()),
        severity=Severity.CRITICAL if is_down else None,
        gpus=1,
        nodes=(card.node,),
        pods=card.holders,
        fix=board_fix(
            snapshot,
            card,
            XidAction.RESET_GPU,
            summary=f"Reset {card.name} of {card.node} when its jobs end; have bridge, cable or baseboard checked",
            look=(steps.describe_node(card.node),),
            gone="The NVLink counters stand still over a whole window under load.",
            why_escalate="Errors that go on after a reset come from a bridge, a cable, the baseboard or the GPU.",
        ),
    )


def _switches(snapshot: Snapshot) -> dict[str, list[Told]]:
    found: dict[str, list[Told]] = {}
    for line in told(snapshot, {SWITCH}):
        if _FATAL.search(line.signal.words.get("message", "")):
            found.setdefault(line.node, []).append(line)
    return found


def _of_switch(snapshot: Snapshot, node: str, lines: list[Told]) -> Hit:
    known = snapshot.node_by_name.get(node)
    gpus = [g for g in snapshot.gpus_by_node.get(node, []) if g.is_named] or [
        Gpu(slot=f"{node}/?", node=node)
    ]
    code = lines[-1].signal.numbers.get("sxid_code", 0)
    return Hit(
        subject=Subject.of_node(known)
        if known is not None
        else Subject(kind="Node", name=node, api_version="v1"),
        cause="nvswitch-fatal-error",
        title=f"Node {node}: an NVSwitch reported the fatal error SXid {code:.0f}",
        summary=f"A fatal error of an NVSwitch ({ago(snapshot, lines[-1])}) concerns all GPUs of the board: their "
        "links are of no use until it was reset.",
        evidence=tuple(line.evidence("switch's words") for line in lines[-3:]),
        confidence=Confidence.HIGH,
        severity=Severity.CRITICAL,
        gpus=len({card_slot(g) for g in gpus}),
        nodes=(node,),
        pods=tuple(sorted({h for g in gpus for h in g.holders})),
        fix=board_fix(
            snapshot,
            Card(gpus[0].slot, tuple(gpus)),
            XidAction.REBOOT,
            summary=f"Drain {node} and reboot it, so that switches and GPUs start anew",
            look=(steps.describe_node(node),),
            gone="No new SXid line.",
            why_escalate="A fatal SXid again after a reboot points at the baseboard.",
        ),
    )
