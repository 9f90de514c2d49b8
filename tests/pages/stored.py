"""What polls would have stored: a cluster with incidents, an observation and a snapshot, with sane defaults."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from diagnostics import archive
from diagnostics.findings import Confidence, Diagnosis, Evidence, Finding, Severity, Subject, fingerprint
from diagnostics.fixes import Fix, Risk, Step, StepKind
from diagnostics.incidents import record
from diagnostics.models import Cluster, Observation
from diagnostics.snapshot import Snapshot
from diagnostics.storable import storable, storable_text
from tests.builders import NOW, snapshot

IDENTITY = "11111111-2222-3333-4444-555555555555"


def step(**fields: Any) -> Step:
    defaults: dict[str, Any] = {
        "kind": StepKind.DIAGNOSE,
        "title": "Read the state of node gpu-1",
        "why": "Its conditions say what the kubelet sees.",
        "risk": Risk.READ_ONLY,
        "command": "kubectl describe node gpu-1",
        "expect": "The counts of the evidence in `Allocatable`.",
    }
    return Step(**(defaults | fields))


def finding(code: str = "GPU201", slug: str = "fewer-gpus-than-fitted", **fields: Any) -> Finding:
    """A warning about node gpu-1, told apart from others by code and subject."""
    subject = fields.pop("subject", Subject(kind="Node", name="gpu-1"))
    defaults: dict[str, Any] = {
        "id": fingerprint(IDENTITY, code, subject),
        "severity": Severity.WARNING,
        "confidence": Confidence.HIGH,
        "cause": "unhealthy-device",
        "title": f"Node {subject.name} offers 7 of 8 fitted GPUs",
        "summary": "1 GPU of 8 cannot be scheduled. The device plugin took it out as unhealthy.",
        "evidence": (
            Evidence("Fitted", "8", "GPUs", "label nvidia.com/gpu.count"),
            Evidence("Allocatable", "7", "GPUs", "status.allocatable"),
        ),
        "fix": Fix("Find the unhealthy GPU and reset it", (step(),)),
        "gpus": 1,
        "waste_gpus": 1.0,
        "nodes": ("gpu-1",),
    }
    return Finding(code=code, slug=slug, subject=subject, **(defaults | fields))


def cluster(slug: str = "lab", **fields: Any) -> Cluster:
    defaults = {"slug": slug, "name": slug, "identity": IDENTITY if slug == "lab" else slug}
    values = defaults | fields
    # A declared name comes from TOML, which has no NUL either.
    return Cluster.objects.create(**(values | {"name": storable_text(values["name"])}))


def observation(of: Cluster, at: datetime = NOW, **fields: Any) -> Observation:
    """A poll that took two seconds and saw everything."""
    defaults: dict[str, Any] = {
        "taken_at": at,
        "started_at": at,
        "finished_at": at + timedelta(seconds=2),
        "status": "ok",
        "sources": [
            {"name": "nodes", "status": "ok", "detail": "", "items": 12, "seconds": 0.12, "skipped": []},
            {"name": "pods", "status": "ok", "detail": "", "items": 96, "seconds": 0.3, "skipped": []},
        ],
        "stages_ms": {"collect": 1500.0, "diagnose": 320.0, "record": 40.0},
        "nodes": 12,
        "pods": 96,
        "gpus": 96,
    }
    # As the pipeline does it: what a cluster said is made fit for the database.
    said = {k: storable(v) if isinstance(v, dict | list | str) else v for k, v in fields.items()}
    return Observation.objects.create(cluster=of, **(defaults | said))


def keep(of: Cluster, what: Snapshot) -> None:
    """Store `what` as the latest snapshot."""
    archive.publish(of, archive.packed(of, what, None))


def polled(
    *findings: Finding,
    of: Cluster | None = None,
    at: datetime = NOW,
    seen: Snapshot | None = None,
    **fields: Any,
) -> Cluster:
    """A cluster after a poll at `at` that found `findings`, which open at once; `fields` are the observation's."""
    of = of or cluster()
    what = seen or snapshot(taken_at=at)
    found(of, findings, at)
    keep(of, what)
    observation(of, at, **fields)
    return of


def found(of: Cluster, findings: Iterable[Finding], at: datetime = NOW) -> None:
    """What incidents make of findings whose rules do not wait."""
    diagnosis = Diagnosis(findings=tuple(findings))
    record(of, snapshot(taken_at=at), diagnosis, holds={f.code: 1 for f in diagnosis.findings})
