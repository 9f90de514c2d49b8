"""A cluster with something of everything that pages show, hostile names among it, as polls up to `at` left it."""

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from diagnostics.findings import Finding, Severity, Subject
from diagnostics.fixes import Fix, Risk, StepKind
from diagnostics.incidents import follow_up
from diagnostics.models import (
    Backfill,
    ChangeKind,
    Cluster,
    Incident,
    IncidentEvent,
    Price,
    TeamRule,
    TopologyChange,
    User,
)
from diagnostics.snapshot import Condition, Metrics, Snapshot, State, Taint
from tests.builders import GIB, gang, gpu, node, owner, pending_pod, pod, snapshot
from tests.pages.addresses import Example
from tests.pages.stored import cluster, finding, found, keep, observation, step
from tests.pages.stored_history import held, spent, workload

HOSTILE = "<img src=x onerror=alert(1)>\u202e\x1b[31m%s{{ 7|add:7 }}" + "x" * 200
PLACE = "00000000:10:00.0"
JOB, ODD = owner(), owner("Job", HOSTILE[:253], HOSTILE[:253])
MINUTE = timedelta(minutes=1)

XID = finding(
    "GPU101",
    "fatal-xid",
    severity=Severity.CRITICAL,
    subject=Subject(kind="GPU", name=f"gpu-1/{PLACE}"),
    title="GPU 0 on gpu-1: Xid 79",
    fix=Fix(
        "Drain the node and reset the GPU",
        (
            step(),
            step(kind=StepKind.FIX, risk=Risk.DISRUPTIVE, title="Drain it", command="kubectl drain 'gpu-1'"),
            step(command="", manifest=f"spec:\n  name: {'y' * 200}\n", risk=Risk.SAFE, title="Patch it"),
            step(kind=StepKind.VERIFY, title="See that it is back", command="kubectl get node gpu-1"),
            step(kind=StepKind.ESCALATE, title="Ask the vendor", command=""),
        ),
    ),
)
IDLE = finding(
    "GPU501",
    "idle-gpu",
    subject=Subject.of_owner(JOB),
    title="Job train holds 2 GPUs without using them",
    caused_by=(XID.id,),
    pods=("research/train-0",),
)
STRANGE = finding("GPU401", subject=Subject.of_owner(ODD), title=HOSTILE, nodes=(HOSTILE,), gpus=3)
PENDING = finding(
    "GPU303",
    "pending-gpu-pod",
    severity=Severity.INFO,
    subject=Subject.of_owner(owner("Job", "waits")),
    title="1 pod waits: no node has 8 free GPUs",
    nodes=(),
)
FINDINGS: tuple[Finding, ...] = (XID, IDLE, STRANGE, PENDING, finding())


class Everything(NamedTuple):
    """The cluster, and what addresses may be of: things with plain names, and with hostile ones."""

    lab: Cluster
    plain: Example
    odd: Example


def seen(at: datetime, number: int = 0) -> Snapshot:
    """GPUs in every state, measured or not, on nodes well and unwell; pods that run, fail and wait.

    By `number` two GPUs of a job take turns and all measured values change; nothing comes or goes.
    """
    cordoned = (Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"),)
    sick = Condition("Ready", "False", HOSTILE, HOSTILE, at - 9 * MINUTE)
    parts: list[Any] = [
        node("gpu-1", rack="rack-a", nvlink_domain="nvl-1"),
        node("gpu-2", rack="rack-b", unschedulable=True, taints=cordoned),
        node(HOSTILE, rack=HOSTILE, conditions=(sick,)),
        pod("train-0", root=JOB, gpus=2, node="gpu-1", started_at=at - 90 * MINUTE),
        pod("train-1", root=JOB, node="gpu-2", started_at=at - 90 * MINUTE),
        gang(members=("research/train-0", "research/train-1"), size=2),
        pod(HOSTILE[:253], ODD.namespace, root=ODD, node=HOSTILE),
        *(pending_pod(f"waits-{i}", root=owner("Job", "waits"), gpus=8, **_since(at)) for i in range(3)),
        pending_pod("odd-0", message=HOSTILE, root=owner("Job", HOSTILE[:200]), **_since(at)),
    ]
    job = (State.EFFECTIVE, State.IDLE_HELD)
    others = [state for state in State if state not in job]
    for place, state in enumerate((*(job if number % 2 else job[::-1]), *others, None)):
        name = ("gpu-1", "gpu-2")[place // 8]
        holders = {0: ("research/train-0",), 1: ("research/train-0",), 8: ("research/train-1",)}.get(
            place, ()
        )
        sample = _sample(place, at, number) if place % 5 else None
        parts.append(gpu(place % 8, name, state=state, holders=holders, metrics=sample))
    odd = f"{ODD.namespace}/{HOSTILE[:253]}"
    parts.append(gpu(0, HOSTILE, state=State.STUCK, holders=(odd,), metrics=None))
    return snapshot(*parts, taken_at=at)


def everything(at: datetime, by: User) -> Everything:
    """`by`: who has followed up. The last poll was at `at`."""
    lab = cluster(server_version="v1.34.0")
    poll(lab, at - 50 * MINUTE, (*FINDINGS, finding("GPU202", title="It is over")))
    poll(lab, at - 2 * MINUTE)
    poll(lab, at)
    first = Incident.objects.get(fingerprint=XID.id)
    follow_up.acknowledge(first.pk, by)
    follow_up.comment(first.pk, by, HOSTILE, 0)
    follow_up.assign(first.pk, by, by)
    _history(lab, at)
    plain = {"node": "gpu-1", "kind": "Job", "namespace": "research", "workload": "train"}
    odd = {"node": HOSTILE, "kind": "Job", "namespace": ODD.namespace, "workload": ODD.name}
    return Everything(
        lab,
        Example(place=PLACE, finding=XID.id, event=_opened(XID), **plain),
        Example(place=PLACE, finding=STRANGE.id, event=_opened(STRANGE), **odd),
    )


def poll(of: Cluster, at: datetime, findings: tuple[Finding, ...] = FINDINGS, number: int = 0) -> None:
    """One poll that found these; `number` as of `seen`."""
    found(of, findings, at)
    keep(of, seen(at, number))
    skipped = [{"reason": HOSTILE, "count": 2, "example": HOSTILE}]
    sources = [
        {"name": "nodes", "status": "ok", "detail": "", "items": 3, "seconds": 0.1, "skipped": []},
        {
            "name": "pods",
            "status": "partial",
            "detail": HOSTILE,
            "items": 7,
            "seconds": 0.2,
            "skipped": skipped,
        },
        {
            "name": "logs",
            "status": "forbidden",
            "detail": "pods/log",
            "items": None,
            "seconds": None,
            "skipped": [],
        },
    ]
    observation(
        of,
        at,
        status="partial",
        sources=sources,
        coverage=[{"code": "GPU901", "what": "Metrics cannot be seen", "cure": "kubectl get pods -A"}],
        rules_skipped=[{"code": "GPU101", "reason": "metrics: absent"}],
        rules_failed=[{"code": "GPU999", "error": HOSTILE}],
        exempted=[
            {
                "code": "GPU501",
                "count": 30,
                "kept": [{"kind": "Job", "namespace": "ml", "name": HOSTILE, "reason": HOSTILE}] * 25,
            }
        ],
    )


def _opened(of: Finding) -> int:
    events = IncidentEvent.objects.filter(incident__fingerprint=of.id, kind=IncidentEvent.Kind.OPENED)
    return events.values_list("pk", flat=True)[0]


def _since(at: datetime) -> dict[str, Any]:
    return {"created_at": at - 20 * MINUTE, "priority": 10}


def _sample(place: int, at: datetime, number: int) -> Metrics:
    share = (place + number % 7) / 20
    return Metrics(
        sampled_at=at,
        utilization_ratio=share,
        sm_active_ratio=share,
        dram_active_ratio=share / 2,
        memory_used_bytes=80 * share * GIB,
        memory_free_bytes=80 * (1 - share) * GIB,
        power_w=90.0 + 300 * share,
        power_limit_w=400.0,
        temperature_c=40.0 + 40 * share,
        xid=79 if place == 1 else 0,
    )


def _history(lab: Cluster, at: datetime) -> None:
    """Three days of a ledger, who held what, what changed, prices and teams."""
    train = workload(lab, last_seen=at, first_seen=at - timedelta(days=3), labels={"team": "nlp"})
    odd = workload(
        lab, namespace=ODD.namespace, name=ODD.name, last_seen=at, first_seen=at - timedelta(days=3)
    )
    nobody = workload(lab, kind="", namespace="", name="", last_seen=at, first_seen=at - timedelta(days=3))
    for hours in range(1, 72):
        hour = at - timedelta(hours=hours)
        spent(train, hour, State.EFFECTIVE, hours=2.0)
        spent(train, hour, State.IDLE_HELD, hours=0.5, wasted=0.5)
        spent(odd, hour, State.STUCK, hours=1.0, wasted=1.0, model=HOSTILE[:120])
        spent(nobody, hour, State.FREE, hours=4.0)
    lab.ledger.complete_through = at - 30 * MINUTE
    lab.ledger.save()
    held(train, "train-0", started_at=at - 90 * MINUTE)
    held(train, "train-before", started_at=at - timedelta(days=2), ended_at=at - timedelta(days=1))
    for number, kind in enumerate(ChangeKind):
        TopologyChange.objects.create(
            cluster=lab,
            node=lab.nodes.first(),
            at=at - number * MINUTE,
            kind=kind,
            subject=HOSTILE if number % 2 else "gpu-1",
            before="550",
            after="570",
        )
    Price.objects.create(cluster=lab, pattern="*A100*", per_gpu_hour="2.5")
    TeamRule.objects.create(by=TeamRule.By.LABEL, key="team", priority=1)
    TeamRule.objects.create(by=TeamRule.By.NAMESPACE, pattern="re*", team=HOSTILE[:120])
    Backfill.objects.create(
        cluster=lab,
        start=at - timedelta(days=14),
        end=at - timedelta(days=3),
        done_from=at - timedelta(days=9),
    )
