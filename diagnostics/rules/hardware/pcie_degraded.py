"""A GPU's PCIe link is slower or narrower than it can be while it works, or repeats much of what it sends.

## Meaning
Under load the link should run at the highest generation and width that board and slot can do together. A narrower link
is mostly a matter of seating, riser or retimer; replays are transfers that had errors.

## Impact
Loading data and models, and every exchange over PCIe, takes longer: half the width is half the bandwidth. Nothing
fails, and utilisation only looks a little lower. Replays that rise precede a GPU that falls off the bus.

## Evidence
Link generation and width of DCGM beside their maxima, at a moment at which the GPU works; replays over the window;
the width that `nvidia-smi -q` shows in a log.

## Not reported
Idle GPUs: they lower the link to save power. Links at the maximum of the slot, however slow that is. A replay counter
that stands, or rises more slowly than `pcie_replays_per_min_max`.

## References
https://docs.nvidia.com/datacenter/dcgm/latest/dcgm-api/dcgm-api-field-ids.html
"""

from collections.abc import Iterator

from diagnostics.findings import Evidence, Hit, Severity, Unjudged
from diagnostics.fixes import steps
from diagnostics.limits import Limits
from diagnostics.quantities import percent, span
from diagnostics.rules.base import rule
from diagnostics.rules.hardware.board_fix import board_fix
from diagnostics.rules.hardware.cards import Card, cards
from diagnostics.rules.hardware.told import PCIE
from diagnostics.snapshot import Snapshot, Source
from diagnostics.xid import XidAction


@rule(
    code="GPU105",
    slug="pcie-degraded",
    severity=Severity.WARNING,
    needs={Source.NODES, Source.METRICS},
    uses={Source.WINDOW, Source.PODS, Source.LOGS},
    caused_by=("fatal-xid",),
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit | Unjudged]:
    """One hit per physical GPU."""
    everyone = cards(snapshot)
    for card in everyone:
        line = card.listing(PCIE)
        told = line.signal.numbers if line is not None else {}
        if line is not None and told["width_count"] < told["width_max_count"]:
            what = f"its PCIe link has {told['width_count']:.0f} of {told['width_max_count']:.0f} lanes"
            yield _hit(snapshot, everyone, card, "pcie-link-narrow", what, [line.evidence("nvidia-smi -q")])
            continue
        if not card.answers:
            continue
        values = limits.of(card.subject).values
        is_busy = card.is_busy(values.link_busy_min_ratio)
        width, widest = card.metric("pcie_link_width"), card.metric("pcie_link_width_max")
        gen, newest = card.metric("pcie_link_gen"), card.metric("pcie_link_gen_max")
        minutes = card.span.total_seconds() / 60 if card.span else 0.0
        replays = card.grown("pcie_replays")
        if is_busy and width and widest and width < widest:
            what = f"its PCIe link has {width} of {widest} lanes"
            yield _hit(snapshot, everyone, card, "pcie-link-narrow", what, _link(card))
        elif is_busy and gen and newest and gen < newest:
            what = f"its PCIe link runs at generation {gen} of {newest}"
            yield _hit(snapshot, everyone, card, "pcie-link-slow", what, _link(card))
        elif replays and minutes and replays / minutes > values.pcie_replays_per_min_max:
            rate = replays / minutes
            facts = Evidence(
                "PCIe replays",
                f"{replays:.0f} more in {span(card.span)}, {rate:.1f} a minute",
                source="replay counter",
            )
            yield _hit(
                snapshot,
                everyone,
                card,
                "pcie-replays",
                "its PCIe link repeats much of what it sends",
                [facts],
            )
        elif width and widest and width < widest:
            yield Unjudged(card.subject, "its link is narrow, but it does not work at this moment")
        elif width is None and gen is None and replays is None:
            yield Unjudged(card.subject, "neither its PCIe link nor replays over a window are collected")


def _link(card: Card) -> list[Evidence]:
    ratio = card.metric("utilization_ratio")
    if ratio is None:
        ratio = card.metric("gr_engine_ratio")
    return [
        Evidence(
            "PCIe link now",
            f"generation {card.metric('pcie_link_gen') or '?'}, {card.metric('pcie_link_width') or '?'} lanes",
            source="DCGM_FI_DEV_PCIE_LINK_GEN and _WIDTH",
        ),
        Evidence(
            "PCIe link at most",
            f"generation {card.metric('pcie_link_gen_max') or '?'}, {card.metric('pcie_link_width_max') or '?'} lanes",
            source="DCGM_FI_DEV_PCIE_MAX_LINK_GEN and _WIDTH",
        ),
        Evidence("utilisation at that moment", percent(ratio), source="last sample"),
    ]


def _hit(
    snapshot: Snapshot, everyone: list[Card], card: Card, cause: str, what: str, facts: list[Evidence]
) -> Hit:
    same = sum(
        other.node == card.node
        and other.slot != card.slot
        and (other.metric("pcie_link_width"), other.metric("pcie_link_gen"))
        == (card.metric("pcie_link_width"), card.metric("pcie_link_gen"))
        for other in everyone
    )
    if cause != "pcie-replays":
        facts.append(Evidence("other GPUs of the node with the same link", str(same), "GPUs", "last sample"))
    return Hit(
        subject=card.subject,
        cause=cause,
        title=f"{card.name} on {card.node}: {what}",
        summary=f"While {card.name} works, {what}. Transfers between host and GPU take longer than they should.",
        evidence=(*facts, *card.identity()),
        gpus=1,
        nodes=(card.node,),
        pods=card.holders,
        fix=board_fix(
            snapshot,
            card,
            XidAction.CHECK_MECHANICALS,
            summary=f"Take {card.node} out when its jobs end, and have slot, riser and seating of {card.name} checked",
            look=(steps.describe_node(card.node),),
            gone="The link is at its maximum while the GPU works, and replays stand still.",
            why_escalate="A link that stays slow after reseating has a bad riser, retimer or board.",
        ),
    )
