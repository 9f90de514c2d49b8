"""What is noted about each poll: sources, counts, durations, and what could not be judged."""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from time import perf_counter
from traceback import format_exception
from typing import Any

from django.db.models import Subquery
from django.utils import timezone

from diagnostics.findings import Diagnosis, Exempted, Severity
from diagnostics.masking import mask_text
from diagnostics.models import Cluster, Observation
from diagnostics.snapshot import Snapshot, Source, SourceState, SourceStatus
from diagnostics.storable import storable, storable_text

EXEMPTED_KEPT = 25
"""Subjects per rule; the others are counted."""
_NOT_ALL = {SourceState.PARTIAL, SourceState.STALE, SourceState.FORBIDDEN, SourceState.FAILED}


log = logging.getLogger(__name__)


class Stages:
    """A stop-watch: when the poll began, and seconds per stage."""

    def __init__(self) -> None:
        self.started_at = timezone.now()
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        begun = perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = perf_counter() - begun

    def fields(self) -> dict[str, Any]:
        """For the row: begin, end and durations."""
        return {
            "started_at": self.started_at,
            "finished_at": timezone.now(),
            "stages_ms": {stage: round(seconds * 1000) for stage, seconds in self.seconds.items()},
        }


def publish(
    cluster: Cluster,
    snapshot: Snapshot,
    diagnosis: Diagnosis,
    stages: Stages,
    collecting: Mapping[str, float],
) -> Observation:
    """The row for one poll; `collecting` says what the stage `collect` was spent on, in seconds."""
    stages.seconds |= collecting
    by_severity = Counter(finding.severity for finding in diagnosis.findings)
    status = _status(snapshot, diagnosis)
    if status != Observation.Status.FAILED:
        _forget_exempted(cluster)
    return Observation.objects.create(
        cluster=cluster,
        taken_at=snapshot.taken_at,
        **stages.fields(),
        status=status,
        error=storable_text(_error(snapshot), 1000),
        sources=[_source(status) for status in snapshot.sources],
        nodes=_count(snapshot, Source.NODES, len(snapshot.nodes)),
        pods=_count(snapshot, Source.PODS, len(snapshot.pods)),
        gpus=_count(snapshot, Source.NODES, len(snapshot.gpus)),
        critical=by_severity[Severity.CRITICAL],
        warning=by_severity[Severity.WARNING],
        info=by_severity[Severity.INFO],
        rules_skipped=storable(diagnosis.skipped),
        rules_partial=storable(diagnosis.partial),
        rules_failed=storable(diagnosis.failed),
        coverage=storable(diagnosis.coverage),
        exempted=_exempted(diagnosis),
    )


def publish_broken(cluster: Cluster, taken_at: datetime, error: Exception, stages: Stages) -> Observation:
    """The row for a poll that came to nothing. Our own errors speak plainly; others are logged where they arose."""
    what = str(error)
    if not type(error).__module__.startswith("diagnostics."):
        what = f"{type(error).__name__}: {what}"
        # Not `exception`, which would print what the message may hold.
        log.error("%s: the poll broke: %s", cluster, mask_text("".join(format_exception(error))))
    return Observation.objects.create(
        cluster=cluster,
        taken_at=taken_at,
        **stages.fields(),
        status=Observation.Status.FAILED,
        error=storable_text(mask_text(what), 1000),
    )


def _source(status: SourceStatus) -> dict[str, Any]:
    return {
        "name": status.name.value,
        "status": status.state.value,
        "detail": storable_text(status.detail),
        "items": status.items,
        "seconds": None if status.seconds is None else round(status.seconds, 3),
        "skipped": storable(status.skipped),
    }


def _exempted(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    found: dict[str, list[Exempted]] = {}
    for exempted in diagnosis.exempted:
        found.setdefault(exempted.code, []).append(exempted)
    return [
        {
            "code": code,
            "count": len(of_rule),
            "kept": [
                {
                    "kind": storable_text(one.subject.kind, 80),
                    "namespace": storable_text(one.subject.namespace, 253),
                    "name": storable_text(one.subject.name, 600),
                    "reason": storable_text(one.reason, 300),
                }
                for one in of_rule[:EXEMPTED_KEPT]
            ],
        }
        for code, of_rule in found.items()
    ]


def _forget_exempted(cluster: Cluster) -> None:
    """Of the last poll that judged, since there is a newer one: kept with every poll it would come to gigabytes."""
    judged = cluster.observations.exclude(status=Observation.Status.FAILED).order_by("-pk").values("pk")
    cluster.observations.filter(pk=Subquery(judged[:1])).exclude(exempted=[]).update(exempted=[])


def _status(snapshot: Snapshot, diagnosis: Diagnosis) -> str:
    if _error(snapshot):
        return Observation.Status.FAILED
    if diagnosis.failed or any(source.state in _NOT_ALL for source in snapshot.sources):
        return Observation.Status.PARTIAL
    return Observation.Status.OK


def _error(snapshot: Snapshot) -> str:
    """Why nothing could be read; empty when nodes or pods could."""
    asked = [snapshot.source(Source.NODES), snapshot.source(Source.PODS)]
    if any(status.state.is_usable for status in asked):
        return ""
    return "; ".join(dict.fromkeys(status.detail or f"{status.name}: {status.state}" for status in asked))


def _count(snapshot: Snapshot, source: Source, number: int) -> int | None:
    return number if snapshot.source(source).state.is_usable else None
