"""GPU workloads whose pods are never made, because a ResourceQuota forbids it: there is no pod to look at."""

import re
from collections import defaultdict
from collections.abc import Iterator

from diagnostics.findings import Evidence, Hit, Subject
from diagnostics.fixes import Fix, kubectl, steps
from diagnostics.limits import Limits
from diagnostics.quantities import rfc3339, span
from diagnostics.snapshot import Event, Snapshot, Workload, gpu_resources
from diagnostics.text import printable

_EXCEEDED = re.compile(
    r"exceeded quota: (?P<quota>[^,]{1,253}), requested: (?P<requested>.+?), used: (?P<used>.+?), "
    r"limited: (?P<limited>.+)$"
)
_AMOUNT = re.compile(r"([\w./-]+)=([\w.]+)")
CHAIN = 8
"""Owner references are data: a loop in them must end."""


def hits(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    """One per GPU workload that lacks pods and whose controller was refused by a quota for long enough."""
    refused: dict[tuple[str, str, str], list[tuple[Event, re.Match[str]]]] = defaultdict(list)
    for event in snapshot.events:
        if event.reason == "FailedCreate" and (match := _EXCEEDED.search(event.message[:2000])):
            refused[event.kind, event.namespace, event.name].append((event, match))
    for key, found in refused.items():
        maker = snapshot.workload_by_key.get(key)
        missing = _missing(maker, snapshot)
        first = min((e.first_at for e, _ in found if e.first_at is not None), default=None)
        last, match = max(found, key=lambda pair: (pair[0].last_at is not None, pair[0].last_at or 0))
        age = snapshot.age(first)
        subject = _subject(key, maker, snapshot)
        if missing == 0 or not _asks_for_gpus(maker, match) or age is None:
            continue
        if age > limits.of(subject).values.pending_after:
            yield _hit(subject, key, found, last, match, missing, span(age), rfc3339(first) if first else "")


def _missing(maker: Workload | None, snapshot: Snapshot) -> int | None:
    """Pods that the controller still wants; None where it could not be read."""
    if maker is None or maker.replicas is None:
        return None
    if maker.is_suspended:
        return 0
    mine = [p for p in snapshot.pods if any(o.uid == maker.uid and o.name == maker.name for o in p.owners)]
    return max(0, maker.replicas - sum(pod.phase != "Failed" for pod in mine))


def _asks_for_gpus(maker: Workload | None, match: re.Match[str]) -> bool:
    names = [
        name.removeprefix("requests.").removeprefix("limits.")
        for name, _ in _AMOUNT.findall(match["requested"])
    ]
    return bool(gpu_resources(dict.fromkeys(names, 1.0))) or (maker is not None and bool(maker.spec))


def _subject(key: tuple[str, str, str], maker: Workload | None, snapshot: Snapshot) -> Subject:
    """The top of the owner chain."""
    kind, namespace, name = key
    if maker is None:
        return Subject(kind, name, namespace)
    for _ in range(CHAIN):
        above = maker.owners[0] if maker.owners else None
        if above is None:
            break
        parent = snapshot.workload_by_key.get((above.kind, namespace, above.name))
        if parent is None:
            return Subject(above.kind, above.name, namespace, above.uid, above.api_version)
        maker = parent
    return Subject.of_owner(maker.key)


def _hit(
    subject: Subject,
    key: tuple[str, str, str],
    found: list[tuple[Event, re.Match[str]]],
    last: Event,
    match: re.Match[str],
    missing: int | None,
    waited: str,
    since: str,
) -> Hit:
    quota = printable(match["quota"], 120)
    gpus = _gpus_each(match)
    source = f"event FailedCreate of {printable(f'{key[0]} {key[1]}/{key[2]}', 200)}"
    lacking = "pods" if missing is None else f"{missing} pod{'' if missing == 1 else 's'}"
    return Hit(
        subject=subject,
        cause="quota",
        title=f"Not a GPU shortage: quota {quota} keeps {printable(str(subject), 160)} from making {lacking} "
        f"for {waited}",
        summary=f"The namespace's ResourceQuota {quota} is used up, so the API server refuses the pods. No pod exists, "
        f'so that no scheduler says anything. The refusal: "{printable(last.message, 600)}"',
        evidence=(
            Evidence("refused since", since, source=source),
            Evidence("requested", printable(match["requested"], 200), source=source),
            Evidence("used", printable(match["used"], 200), source=source),
            Evidence(
                "quota's limit",
                printable(match["limited"], 200),
                source=f"ResourceQuota {quota}, by the event",
            ),
            Evidence("refusals", str(sum(e.count for e, _ in found)), "events", source),
        ),
        fix=_fix(subject, match["quota"], key[1]),
        gpus=gpus * (missing or 1),
    )


def _gpus_each(match: re.Match[str]) -> int:
    amounts = {
        name.removeprefix("requests.").removeprefix("limits."): float(number)
        for name, number in _AMOUNT.findall(match["requested"])
        if number.isdigit()
    }
    return int(sum(gpu_resources(amounts).values()))


def _fix(subject: Subject, quota: str, namespace: str) -> Fix:
    return Fix(
        "Free quota in the namespace, or have it raised",
        (
            steps.look(
                title="See what the quota counts and who uses it",
                why="A quota counts every pod of the namespace that has not finished, Pending ones included.",
                command=kubectl.describe("resourcequota", quota, namespace),
                expect="Used is at or near Hard for the resource that the evidence names.",
            ),
            steps.look(
                title="List the pods that use it up",
                why="Something that is no longer needed may hold the quota.",
                command=kubectl.kubectl("get", "pods", "-n", namespace, "-o", "wide"),
                expect="Running or Pending pods whose requests add up to Used.",
            ),
            steps.escalate(
                "whoever owns the namespace's quota",
                why="Raising a quota takes GPUs from others' share: that is a decision, not a repair.",
                expect=f"A quota that leaves room for {printable(subject.name, 120)}, or a smaller request.",
            ),
            steps.verify_finding_gone("The controller makes its pods at its next try, within some minutes."),
        ),
    )
