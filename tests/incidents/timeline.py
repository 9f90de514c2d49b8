"""A cluster's polls as a list: what each one found goes in, the states of the incidents come out."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from diagnostics.findings import (
    Confidence,
    Diagnosis,
    Evidence,
    Exempted,
    FailedRule,
    Finding,
    Severity,
    SkippedRule,
    Subject,
    UnjudgedSubject,
    fingerprint,
)
from diagnostics.fixes import Fix
from diagnostics.incidents import Recorded, record
from diagnostics.models import Cluster, Incident
from diagnostics.snapshot import Pod, Snapshot
from tests.builders import NOW, statuses

IDENTITY = "3f1c0a52-7a64-4a6e-9a8a-1c1f5d1f0001"
CODE = "GPU501"
HOLDS = {"GPU501": 2, "GPU101": 1}
POLL = timedelta(seconds=60)


def finding(name: str = "train", code: str = CODE, **fields: Any) -> Finding:
    """A finding about the Job `research/<name>`."""
    subject = Subject("Job", name, "research", f"uid-{name}", "batch/v1")
    defaults: dict[str, Any] = {
        "id": fingerprint(IDENTITY, code, subject),
        "code": code,
        "slug": "idle-gpu" if code == CODE else "fatal-xid",
        "severity": Severity.WARNING,
        "confidence": Confidence.HIGH,
        "cause": "nothing-runs",
        "subject": subject,
        "title": f"{name} wastes 2 GPUs",
        "summary": "Two GPUs are held and do nothing.",
        "evidence": (Evidence("activity", "0", "ratio", "DCGM_FI_PROF_SM_ACTIVE"),),
        "fix": Fix("Give the GPUs back", ()),
        "gpus": 2,
        "waste_gpus": 2.0,
    }
    return Finding(**(defaults | fields))


def skipped(code: str = CODE) -> Diagnosis:
    return Diagnosis(skipped=(SkippedRule(code, "needs metrics: absent"),))


def failed(code: str = CODE) -> Diagnosis:
    return Diagnosis(failed=(FailedRule(code, "KeyError: 'x'"),))


def partial(*findings: Finding, code: str = CODE) -> Diagnosis:
    return Diagnosis(findings=findings, partial=(SkippedRule(code, "needs pods: partial"),))


def unjudged(name: str = "train") -> Diagnosis:
    one = finding(name)
    return Diagnosis(unjudged=(UnjudgedSubject(one.code, one.id, one.subject, "window too short"),))


def exempted(name: str = "train", reason: str = "warm standby") -> Diagnosis:
    return Diagnosis(exempted=(Exempted(CODE, finding(name).subject, reason),))


def cluster(**fields: Any) -> Cluster:
    return Cluster.objects.create(**({"identity": IDENTITY, "slug": "prod", "name": "Production"} | fields))


class Timeline:
    """Polls one cluster, once a minute unless told otherwise."""

    def __init__(self, holds: dict[str, int] | None = None, **fields: Any) -> None:
        self.cluster = cluster(**fields)
        self.holds = HOLDS if holds is None else holds
        self.at = NOW
        self.pods: tuple[Pod, ...] = ()
        """What the polls see of the cluster."""
        self.sources = statuses()

    def poll(self, found: Diagnosis | Iterable[Finding] = (), after: timedelta = POLL) -> Recorded:
        self.at += after
        return self.poll_at(self.at, found)

    def poll_at(self, at: datetime, found: Diagnosis | Iterable[Finding] = ()) -> Recorded:
        diagnosis = found if isinstance(found, Diagnosis) else Diagnosis(findings=tuple(found))
        snapshot = Snapshot(
            taken_at=at, cluster_id=self.cluster.identity, pods=self.pods, sources=self.sources
        )
        return record(Cluster.objects.get(pk=self.cluster.pk), snapshot, diagnosis, holds=self.holds)

    def open(self, name: str = "train") -> Incident:
        """The incident of this finding after as many polls as it takes to open."""
        for _ in range(self.holds[CODE]):
            self.poll([finding(name)])
        incident = self.incident(name)
        assert incident.is_open
        return incident

    def incident(self, name: str = "train") -> Incident:
        """The only incident about this Job."""
        return Incident.objects.get(subject_name=name)

    def states(self) -> dict[str, str]:
        """Name of the subject -> status."""
        return dict(Incident.objects.order_by("pk").values_list("subject_name", "status"))

    def events(self, name: str = "train") -> list[str]:
        return list(self.incident(name).events.order_by("pk").values_list("kind", flat=True))
