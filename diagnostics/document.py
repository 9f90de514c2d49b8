"""A diagnosis as one JSON document for machines: the fields that scripts may rely on."""

from typing import Any

from diagnostics.findings import Diagnosis, Finding
from diagnostics.fixes import Fix
from diagnostics.quantities import rfc3339
from diagnostics.snapshot import Snapshot


def as_document(snapshot: Snapshot, diagnosis: Diagnosis) -> dict[str, Any]:
    """JSON-ready; times are RFC 3339 UTC, unknown is null, fields are only ever added."""
    return {
        "cluster": {
            "id": snapshot.cluster_id or None,
            "name": snapshot.cluster,
            "version": snapshot.server_version or None,
        },
        "taken_at": rfc3339(snapshot.taken_at),
        "sources": [{"name": s.name, "status": s.state, "detail": s.detail} for s in snapshot.sources],
        "findings": [finding_document(finding) for finding in diagnosis.findings],
        "coverage": [{"code": c.code, "what": c.what, "cure": c.cure} for c in diagnosis.coverage],
        "skipped": [{"code": s.code, "reason": s.reason} for s in diagnosis.skipped],
        "partial": [{"code": s.code, "reason": s.reason} for s in diagnosis.partial],
        "failed": [{"code": f.code, "error": f.error} for f in diagnosis.failed],
        "exempted": [
            {"code": e.code, "subject": subject_document(e), "reason": e.reason} for e in diagnosis.exempted
        ],
        "unjudged": [
            {"code": u.code, "subject": subject_document(u), "reason": u.reason} for u in diagnosis.unjudged
        ],
    }


def subject_document(item: Any) -> dict[str, str | None]:
    """The subject of a finding or of one of its kin."""
    subject = item.subject
    return {
        "kind": subject.kind,
        "namespace": subject.namespace or None,
        "name": subject.name,
        "uid": subject.uid or None,
    }


def finding_document(finding: Finding) -> dict[str, Any]:
    """One finding with its evidence and guided fix."""
    return {
        "id": finding.id,
        "code": finding.code,
        "slug": finding.slug,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "cause": finding.cause,
        "subject": subject_document(finding),
        "title": finding.title,
        "summary": finding.summary,
        "evidence": [
            {"label": e.label, "value": e.value, "unit": e.unit, "source": e.source} for e in finding.evidence
        ],
        "gpus": finding.gpus,
        "waste_gpus": finding.waste_gpus,
        "caused_by": list(finding.caused_by),
        "held": finding.held,
        "nodes": list(finding.nodes),
        "pods": list(finding.pods),
        "overrides": list(finding.overrides),
        "fix": fix_document(finding.fix),
    }


def fix_document(fix: Fix) -> dict[str, Any]:
    """A guided fix; `command`, `manifest` and `diff` are null where a step has none."""
    return {
        "summary": fix.summary,
        "steps": [
            {
                "kind": step.kind,
                "title": step.title,
                "why": step.why,
                "command": step.command or None,
                "manifest": step.manifest or None,
                "diff": step.diff or None,
                "risk": step.risk,
                "expect": step.expect,
            }
            for step in fix.steps
        ],
    }
