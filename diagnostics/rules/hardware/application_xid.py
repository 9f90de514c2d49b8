"""An application made the driver stop it with an Xid, or one GPU collects such Xids whoever uses it.

## Meaning
Xids like 13, 31, 43 and 69 are faults of the program: an illegal access, a bad instruction, a channel that was stopped.
The process ends and the GPU goes on. The same Xids on one GPU alone, over different workloads or while a job's other
GPUs have none, point at that GPU.

## Impact
The program crashes, and a collective job waits for the rank that is gone. Draining the node or resetting the GPU does
not help as long as the program is the cause.

## Evidence
Changes of the Xid metric, Xids that earlier polls saw, kernel lines that logs and node events quote; the workload that
holds the GPU, and what its other GPUs show.

## Not reported
Xids within 60 s of a fatal one on the same GPU: its consequences. 45 alone, which follows any process that is ended. A
gauge that merely stands: it shows the last code for months, and says neither when nor how often. Xids older than
`xid_recent`.

## References
https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject
from diagnostics.limits import Limits
from diagnostics.quantities import rfc3339, span
from diagnostics.rules.base import rule
from diagnostics.rules.hardware.application_fix import application_fix, suspect_fix
from diagnostics.rules.hardware.cards import Card, cards, xids_of
from diagnostics.rules.hardware.fatal_xid import NEAR
from diagnostics.rules.hardware.told import XID
from diagnostics.snapshot import Pod, Snapshot, Source, XidSeen
from diagnostics.text import listed, printable
from diagnostics.xid import Xid, XidClass, lookup

APART = timedelta(minutes=10)
"""Processes of one job are stopped together (ours)."""


@dataclass(frozen=True)
class _Case:
    """Application Xids of one card, and whose they are."""

    card: Card
    xids: tuple[tuple[datetime, XidSeen, Xid], ...]
    pod: Pod | None
    """Who holds the card, or who printed the kernel's line and holds GPUs."""
    programs: Mapping[str, list[datetime | None]]
    """Name of each process that the kernel stopped on it -> when."""

    @property
    def count(self) -> int:
        return sum(xid.count or 1 for _, xid, _ in self.xids)


@rule(
    code="GPU102",
    slug="application-xid",
    severity=Severity.INFO,
    needs={Source.NODES},
    uses={Source.PODS, Source.WORKLOADS, Source.METRICS, Source.WINDOW, Source.LOGS, Source.EVENTS},
    caused_by=("fatal-xid",),
    hold=1,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    """One hit per workload, or per GPU where the GPU is suspected or nobody holds it."""
    cases = [case for card in cards(snapshot) if (case := _case(snapshot, card, limits)) is not None]
    faulty = {case.card.slot for case in cases}
    for case in cases:
        why = _suspicion(snapshot, case, faulty, limits.of(case.card.subject).values.xid_repeats_min)
        yield _of_gpu(snapshot, case, why) if why else _of_application(snapshot, case)


def _case(snapshot: Snapshot, card: Card, limits: Limits) -> _Case | None:
    recent = limits.of(card.subject).values.xid_recent
    dated = [
        (at, x) for x in xids_of(snapshot, card) if (at := x.last_at) and snapshot.taken_at - at <= recent
    ]
    rows = [(at, x, row) for at, x in dated if (row := lookup(x.code)) is not None]
    fatal = [at for at, x, row in rows if row.is_fatal_with(x.message)]
    own = tuple(
        (at, x, row)
        for at, x, row in rows
        if row.kind is XidClass.APPLICATION and not any(abs(at - moment) <= NEAR for moment in fatal)
    )
    if not own:
        return None
    lines = [t.signal for t in card.told if t.signal.signal == XID]
    printers = [p for s in lines if (p := snapshot.pod_by_key.get(s.pod_key)) is not None and p.gpus]
    holders = [p for key in card.holders if (p := snapshot.pod_by_key.get(key)) is not None]
    programs: dict[str, list[datetime | None]] = {}
    for signal in lines:
        program = signal.words.get("process", "").strip("<>' ")
        if program not in ("", "unknown"):
            programs.setdefault(program, []).append(signal.at)
    pods = holders or printers
    return _Case(card=card, xids=own, pod=pods[0] if pods else None, programs=programs)


def _different_programs(programs: Mapping[str, list[datetime | None]]) -> bool:
    """Two names may be one job's processes, unless they were stopped far apart in time; three are several jobs."""
    if len(programs) > 2:
        return True
    first = sorted(min(at for at in times if at) for times in programs.values() if any(times))
    return len(first) > 1 and first[-1] - first[0] >= APART


def _suspicion(snapshot: Snapshot, case: _Case, faulty: set[str], least: int) -> str:
    """Why the GPU rather than the program is to blame; empty where nothing says so."""
    if _different_programs(case.programs):
        return f"different programs were stopped on it: {listed([printable(p, 60) for p in sorted(case.programs)])}"
    pod = case.pod
    born = _born(snapshot, pod) if pod is not None else None
    earlier = [row.code for at, _, row in case.xids if born is not None and at < born]
    if earlier and len(earlier) < len(case.xids):
        return (
            f"Xid {earlier[0]} came before {Subject.of_pod(pod).name} existed, the others while it ran"
            if pod
            else ""
        )
    if pod is not None and case.count >= least:
        root = pod.root
        slots = {
            gpu.slot.partition("/mig-")[0]
            for other in snapshot.pods_by_root.get(root, [])
            for gpu in snapshot.gpus_by_pod.get(other.key, [])
        } if root is not None else set()  # fmt: skip
        if len(slots) > 1 and not (slots - {case.card.slot}) & faulty:
            return f"{case.count} times on this GPU, never on the other {len(slots) - 1} of the same workload"
    return ""


def _born(snapshot: Snapshot, pod: Pod) -> datetime | None:
    """When the workload came to be: pods of one owner are one workload."""
    root = pod.root
    if root is None or root.kind == "Pod":
        return pod.created_at
    workload = snapshot.workload_by_key.get((root.kind, root.namespace, root.name))
    return workload.created_at if workload is not None else None


def _of_application(snapshot: Snapshot, case: _Case) -> Hit:
    at, _, row = max(case.xids, key=lambda x: x[0])
    card, pod = case.card, case.pod
    subject = Subject.of_pod(pod) if pod is not None else card.subject
    who = printable(
        next(iter(sorted(case.programs)), "") or (subject.name if pod is not None else "a program"), 80
    )
    return Hit(
        subject=subject,
        cause="application-gpu-exception",
        title=f"Xid {row.code} on {card.name} of {card.node}: a fault of {who}",
        summary=f"The driver stopped {who} with Xid {row.code} ({row.meaning}) {span(snapshot.age(at))} ago. This is "
        "the program's fault most likely: other processes on the GPU go on, and it needs neither reset nor repair.",
        evidence=tuple(_evidence(snapshot, case)),
        confidence=Confidence.HIGH if pod is not None or case.programs else Confidence.MEDIUM,
        gpus=1,
        nodes=(card.node,),
        pods=tuple(dict.fromkeys([*card.holders, *([pod.key] if pod is not None else [])])),
        fix=application_fix(card, pod, row.code),
    )


def _of_gpu(snapshot: Snapshot, case: _Case, why: str) -> Hit:
    card = case.card
    codes = listed([str(row.code) for _, _, row in case.xids])
    return Hit(
        subject=card.subject,
        cause="gpu-suspected-by-repeated-xids",
        title=f"{card.name} on {card.node}: Xid {codes} again and again, whoever uses it",
        summary=f"Each of these Xids alone is a program's fault. Here {why}: that points at this GPU.",
        evidence=(Evidence("why the GPU", why, source="Xids and holders"), *_evidence(snapshot, case)),
        confidence=Confidence.MEDIUM,
        severity=Severity.WARNING,
        gpus=1,
        nodes=(card.node,),
        pods=card.holders,
        fix=suspect_fix(card),
    )


def _evidence(snapshot: Snapshot, case: _Case) -> Iterator[Evidence]:
    for at, xid, row in sorted(case.xids, key=lambda x: x[0], reverse=True):
        times = f", {xid.count} times" if xid.count and xid.count > 1 else ""
        yield Evidence(
            f"Xid {xid.code}",
            f"{row.meaning}; last seen {span(snapshot.age(at))} ago ({rfc3339(at)}){times}",
            source="kernel log line" if xid.message else f"changes of the Xid metric of {case.card.slot}",
            at=at,
        )
    for line in case.card.told:
        if line.signal.signal == XID:
            yield line.evidence("kernel's words")
    yield from case.card.identity()
