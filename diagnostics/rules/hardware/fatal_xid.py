"""A GPU reported an Xid error that it cannot recover from by itself.

## Meaning
The driver logged an Xid whose class needs a reset of the GPU, a reboot of the node, or a repair: a fatal memory,
link, bus or firmware error. Which one stands in NVIDIA's catalogue.

## Impact
Processes on the GPU end or hang, and a collective job stops on all of its nodes. New pods that land on the GPU fail
until it is reset.

## Evidence
Changes of the Xid metric within the window, Xids that earlier polls saw to happen, and kernel lines that logs and
node events quote, no older than `xid_recent`.

## Not reported
Xids of the application (13, 31, 43, 45, 68, 69 and their like): the GPU goes on. Contained memory errors (94) and row
remaps that wait for a reset (63). 43 and 45 within 60 s of another Xid: its consequences, listed beside it. A gauge
that merely stands: the metric keeps the last code until the exporter restarts, so nothing says when it happened.

## References
https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
https://docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt/index.html
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject, Unjudged
from diagnostics.limits import Limits
from diagnostics.quantities import percent, rfc3339, span
from diagnostics.rules.base import rule
from diagnostics.rules.hardware.cards import card_slot, cards, xids_of
from diagnostics.rules.hardware.offenders import offenders
from diagnostics.rules.hardware.xid_fix import xid_fix
from diagnostics.snapshot import Gpu, Snapshot, Source, XidSeen
from diagnostics.text import listed, printable
from diagnostics.xid import Xid, XidAction, XidClass, lookup

NEAR = timedelta(seconds=60)
"""43 and 45 this close to another Xid of the same GPU are its consequences (NVIDIA's catalogue: follow the other)."""


@rule(
    code="GPU101",
    slug="fatal-xid",
    severity=Severity.CRITICAL,
    needs={Source.NODES, Source.METRICS, Source.WINDOW},
    uses={Source.PODS, Source.LOGS, Source.EVENTS},
    hold=1,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit | Unjudged]:
    """One hit per physical GPU; MIG instances of one GPU are one."""
    failed = {one.node.name: one.times for one in offenders(snapshot, limits)}
    for card in cards(snapshot):
        gpus = list(card.gpus)
        recent = limits.of(card.subject).values.xid_recent
        seen = xids_of(snapshot, card)
        dated = [(at, x) for x in seen if (at := x.last_at) and snapshot.taken_at - at <= recent]
        fatal = [(at, x, row) for at, x in dated if (row := lookup(x.code)) and _is_fatal(row, x, gpus)]
        if fatal:
            again = failed.get(card.node, 0)
            yield _hit(snapshot, card.subject, gpus, fatal, dated, recent, again)
        elif (
            card.is_measured
            and not seen
            and not any(g.window is not None and g.metrics and g.metrics.xid is not None for g in gpus)
        ):
            yield Unjudged(card.subject, "its Xid metric is not collected over the window")


def _is_fatal(row: Xid, xid: XidSeen, gpus: list[Gpu]) -> bool:
    """154 only points at the recovery action, which the GPU may report itself: 1 reset, 2 reboot, 4 drain and reset."""
    if row.code == 154 and not xid.message:
        return any(g.metrics and g.metrics.recovery_action in (1, 2, 4) for g in gpus)
    return row.is_fatal_with(xid.message)


Fatal = tuple[datetime, XidSeen, Xid]


def _hit(
    snapshot: Snapshot,
    subject: Subject,
    gpus: list[Gpu],
    fatal: list[Fatal],
    dated: list[tuple[datetime, XidSeen]],
    recent: timedelta,
    again: int,
) -> Hit:
    """`again`: on how many occasions its node failed in 30 days, where that is far more often than others; else 0."""
    gpu = gpus[0]
    at, _, row = max(fatal, key=lambda f: (f[2].action is XidAction.REBOOT, f[2].code != 154, f[2].code))
    name = f"GPU {gpu.index}" if gpu.index is not None else f"GPU {gpu.pci or gpu.uuid}"
    holders = tuple(sorted({h for g in gpus for h in g.holders}))
    coverage = max((g.window.coverage_ratio for g in gpus if g.window), default=None)
    is_sure = coverage is None or coverage >= 0.5
    return Hit(
        subject=subject,
        cause=row.slug,
        title=f"{name} on {gpu.node}: Xid {row.code}, {row.meaning}",
        summary=f"The driver reported Xid {row.code} ({row.meaning}) {span(snapshot.age(at))} ago. The GPU does not "
        f"recover from it by itself: {_needed(row, gpus)}.{_newer(snapshot, row, fatal)}",
        evidence=tuple(_evidence(snapshot, gpus, fatal, dated, coverage)),
        fix=xid_fix(snapshot, gpus, row, _action(row, gpus), recent, again),
        confidence=Confidence.HIGH if is_sure and row.kind is not XidClass.LINK else Confidence.MEDIUM,
        gpus=1,
        nodes=(gpu.node,),
        pods=holders,
    )


def _newer(snapshot: Snapshot, row: Xid, fatal: list[Fatal]) -> str:
    """The gauge shows the newest code alone, which need not be the gravest that leads here."""
    at, _, newest = max(fatal, key=lambda f: f[0])
    if newest.code == row.code:
        return ""
    return f" Since then it reported Xid {newest.code} ({newest.meaning}), {span(snapshot.age(at))} ago."


def _action(row: Xid, gpus: list[Gpu]) -> XidAction:
    """The GPU's own recovery action overrides the catalogue's (NVML: 1 reset, 2 reboot, 4 drain and reset)."""
    own = {g.metrics.recovery_action for g in gpus if g.metrics}
    if 2 in own:
        return XidAction.REBOOT
    if own & {1, 4}:
        return XidAction.RESET_GPU
    return XidAction.RESET_GPU if row.code == 154 else row.action


def _needed(row: Xid, gpus: list[Gpu]) -> str:
    action = _action(row, gpus)
    if action is XidAction.SUPPORT:
        return "it has to be taken out of service and shown to the vendor"
    if action is XidAction.CHECK_MECHANICALS:
        return "its seating and power cables have to be checked"
    return f"the catalogue's immediate action is to {action}"


def _evidence(
    snapshot: Snapshot,
    gpus: list[Gpu],
    fatal: list[Fatal],
    dated: list[tuple[datetime, XidSeen]],
    coverage: float | None,
) -> Iterator[Evidence]:
    gpu = gpus[0]
    codes = {x.code for _, x, _ in fatal}
    where = f"changes of the Xid metric of {card_slot(gpu)}"
    for at, xid, row in sorted(fatal, key=lambda f: f[0], reverse=True):
        times = f", {xid.count} times" if xid.count and xid.count > 1 else ""
        yield Evidence(
            f"Xid {xid.code}", f"{row.meaning}; last seen {span(snapshot.age(at))} ago ({rfc3339(at)}){times}",
            source="kernel log line" if xid.message else where, at=at,
        )  # fmt: skip
        if xid.message:
            yield Evidence("kernel's words", printable(xid.message, 300), source="kernel log line")
    for at, xid in dated:
        if xid.code in codes:
            continue
        other = lookup(xid.code)
        near = any(abs(at - moment) <= NEAR for moment, _, _ in fatal)
        what = "consequence of the above" if xid.code in (43, 45) and near else "beside it"
        meaning = other.meaning if other else "not in the catalogue"
        yield Evidence(f"Xid {xid.code}", f"{meaning}; {what}, {span(snapshot.age(at))} ago", source=where)
    precision = "as precise as the samples are dense"
    if coverage is not None and gpu.window is not None:
        precision += f"; {percent(coverage)} of the last {span(gpu.window.span)} was sampled"
    yield Evidence("how the time is known", precision, source="window and earlier polls")
    if gpu.uuid:
        yield Evidence(
            "board", printable(f"{gpu.uuid} {gpu.model or ''}".strip(), 120), source="metric labels"
        )
    holders = sorted({h for g in gpus for h in g.holders})
    held = listed(holders) if holders else "nobody"
    worked = max((w for g in gpus if (w := snapshot.past.last_active.get(g.slot))), default=None)
    if not holders and worked is not None:
        before = ", before any of these Xids" if worked < min(at for at, _, _ in fatal) else ""
        held += f"; it worked last {span(snapshot.age(worked))} ago{before}"
    yield Evidence("held by", held, source=gpu.holder_source or "holders")
