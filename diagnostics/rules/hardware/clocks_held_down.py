"""A working GPU runs below its clock because of heat, or because its power supply tells it to.

## Meaning
The driver says why it lowers clocks: slowdown by heat (hardware or software), the power brake of the supply or the
rack, or a hardware slowdown without a further reason.

## Impact
The GPU computes more slowly, and a collective job goes as slowly as its slowest GPU. Heat shortens the board's life.

## Evidence
Clock event reasons and clock of a moment at which the GPU works; the share of the window with lowered clocks;
the reasons that `nvidia-smi -q` shows as active in a log.

## Not reported
A GPU at its power cap: that is normal at full load. Idle GPUs, whose clocks are low anyway. Clocks that somebody set.
A reason that costs no clock: less than `clock_loss_min_ratio` below the highest, or a slowdown in less than
`slowdown_min_ratio` of the window.

## References
https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
"""

from collections.abc import Iterator

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Unjudged
from diagnostics.fixes import Fix, Risk, Step, StepKind, steps
from diagnostics.limits import Limits, Thresholds
from diagnostics.quantities import percent, span
from diagnostics.rules.base import rule
from diagnostics.rules.hardware.board_fix import vendor
from diagnostics.rules.hardware.cards import Card, cards
from diagnostics.rules.hardware.told import CLOCKS
from diagnostics.snapshot import Snapshot, Source

HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, POWER_BRAKE = 0x8, 0x20, 0x40, 0x80
"""Bits of NVML's clock event reasons."""
_REASONS = (
    (POWER_BRAKE, "power_brake", "power-brake", "the power supply or the rack brakes it"),
    (HW_THERMAL, "hw_thermal", "thermal-slowdown", "it is too hot (hardware slowdown)"),
    (SW_THERMAL, "sw_thermal", "thermal-slowdown", "it is too hot (software slowdown)"),
    (HW_SLOWDOWN, "hw_slowdown", "hardware-slowdown", "the hardware slows it down"),
)


@rule(
    code="GPU106",
    slug="clocks-held-down",
    severity=Severity.WARNING,
    needs={Source.NODES, Source.METRICS},
    uses={Source.WINDOW, Source.PODS, Source.LOGS},
    hold=3,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit | Unjudged]:
    """One hit per physical GPU."""
    everyone = cards(snapshot)
    for card in everyone:
        listed = _listed(card)
        if listed is not None:
            yield _hit(everyone, card, *listed, _share(card))
            continue
        if not card.answers:
            continue
        values = limits.of(card.subject).values
        reasons, share = card.metric("clock_event_reasons"), _share(card)
        if reasons is None and share is None:
            yield Unjudged(card.subject, "neither clock event reasons nor thermal violations are collected")
            continue
        if not card.is_busy(values.link_busy_min_ratio):
            continue
        found = _found(card, reasons, share, values)
        if found is not None:
            yield _hit(everyone, card, *found, share)


def _listed(card: Card) -> tuple[str, str] | None:
    """What `nvidia-smi -q` says in a log."""
    line = card.listing(CLOCKS)
    active = (
        {key for key, word in line.signal.words.items() if word == "Active"} if line is not None else set()
    )
    return next(((cause, why) for _, key, cause, why in _REASONS if key in active), None)


def _share(card: Card) -> float | None:
    """Share of the window with clocks lowered by heat."""
    grown = card.grown("thermal_violation_s")
    return None if grown is None or card.span is None else min(1.0, grown / card.span.total_seconds())


def _found(
    card: Card, reasons: int | None, share: float | None, values: Thresholds
) -> tuple[str, str] | None:
    """Cause slug and why, where it costs clock."""
    loss = _loss(card)
    bit, _, cause, why = next((r for r in _REASONS if (reasons or 0) & r[0]), (0, "", "", ""))
    lasts = share is not None and share >= values.slowdown_min_ratio
    if not bit:
        # The reason is not collected, or is not set at this moment.
        return ("thermal-slowdown", "it is too hot") if lasts and (loss is None or reasons is None) else None
    if loss is not None:
        return (cause, why) if loss >= values.clock_loss_min_ratio else None
    return (cause, why) if lasts or bit in (HW_THERMAL, POWER_BRAKE) else None


def _loss(card: Card) -> float | None:
    """How far the clock is below the highest, 0 to 1; None: unknown."""
    now, most = card.metric("sm_clock_mhz"), card.metric("sm_clock_max_mhz")
    return None if now is None or not most else max(0.0, 1.0 - now / most)


def _hit(everyone: list[Card], card: Card, cause: str, why: str, share: float | None) -> Hit:
    others = [
        other.name
        for other in everyone
        if other.node == card.node
        and other.slot != card.slot
        and (other.metric("clock_event_reasons") or 0) & (SW_THERMAL | HW_THERMAL | POWER_BRAKE | HW_SLOWDOWN)
    ]
    loss = _loss(card)
    return Hit(
        subject=card.subject,
        cause=cause,
        title=f"{card.name} on {card.node} runs below its clock: {why}",
        summary=f"{card.name} works, and {why}"
        + (f": its clock is {percent(loss)} below the highest." if loss else ".")
        + (
            " Other GPUs of the node have the same trouble: look at the node's cooling and power."
            if others
            else ""
        ),
        evidence=tuple(_evidence(card, share, others)),
        confidence=Confidence.HIGH if loss is not None or share is not None else Confidence.MEDIUM,
        gpus=1,
        nodes=(card.node,),
        pods=card.holders,
        fix=_fix(card, cause),
    )


def _evidence(card: Card, share: float | None, others: list[str]) -> Iterator[Evidence]:
    if (line := card.listing(CLOCKS)) is not None:
        yield line.evidence("nvidia-smi -q")
    reasons = card.metric("clock_event_reasons")
    if reasons is not None:
        told = [why for bit, *_, why in _REASONS if reasons & bit]
        text = f"{reasons:#x}" + (f": {', '.join(told)}" if told else "")
        yield Evidence("clock event reasons", text, source="DCGM_FI_DEV_CLOCKS_EVENT_REASONS")
    if (clock := card.metric("sm_clock_mhz")) is not None:
        most = card.metric("sm_clock_max_mhz")
        yield Evidence(
            "SM clock", f"{clock:.0f}" + (f" of {most:.0f}" if most else ""), "MHz", "DCGM_FI_DEV_SM_CLOCK"
        )
    if share is not None:
        yield Evidence(
            "time with clocks lowered by heat", f"{percent(share)} of {span(card.span)}",
            source="DCGM_FI_DEV_THERMAL_VIOLATION",
        )  # fmt: skip
    if (heat := card.metric("temperature_c")) is not None:
        limit = card.metric("temperature_slowdown_c")
        text = f"{heat:.0f}" + (f", slows down at {limit:.0f}" if limit is not None else "")
        yield Evidence("temperature", text, "°C", "DCGM_FI_DEV_GPU_TEMP")
    if (power := card.metric("power_w")) is not None:
        limit = card.metric("power_limit_w")
        text = f"{power:.0f}" + (f" of {limit:.0f}" if limit is not None else "")
        yield Evidence("power", text, "W", "DCGM_FI_DEV_POWER_USAGE")
    yield Evidence(
        "other GPUs of the node", ", ".join(others[:8]) or "none of them is slowed down", source="same sample"
    )
    yield from card.identity()


def _fix(card: Card, cause: str) -> Fix:
    node = card.node
    what = "power supplies, their cables and the rack's power limit" if cause == "power-brake" else (
        "fans, air filters, coolant and the temperature of the air that goes in"
    )  # fmt: skip
    return Fix(
        summary=f"Have {what} of {node} checked",
        steps=(
            steps.see_pods_on_node(node),
            steps.describe_node(node),
            steps.read_kernel_log(node),
            steps.cordon(node),
            Step(
                kind=StepKind.FIX,
                title=f"Check {what} of node {node}",
                why="The GPU protects itself; the cause lies outside of it as a rule. Most of it can be seen in the "
                "machine's own management without opening it. Opening it takes a drained node.",
                risk=Risk.DISRUPTIVE,
                expect="One of them is out of order, or more GPUs of the rack are hot.",
            ),
            steps.verify_finding_gone(
                "The reason is gone while the GPU works at full load; then uncordon the node."
            ),
            vendor(
                "A GPU that slows down alone in a cool node has bad thermal paste, a bad cooler or a bad sensor."
            ),
        ),
    )
