"""Status: which sources answered, what cannot be seen and the line that cures it, and how the last polls went."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any, get_type_hints

from django.conf import settings
from django.db.models import OuterRef, Subquery
from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe
from msgspec import Meta

from diagnostics.models import Cluster, Observation
from diagnostics.models.observation import STAGES
from diagnostics.quantities import span
from diagnostics.retention import Retention
from diagnostics.rules import catalogue
from diagnostics.snapshot import Source, SourceState
from diagnostics.views.backfills import Progress, progress_of
from diagnostics.views.blind import BlindSpot, RuleNote, blind_spots, rule_notes
from diagnostics.views.page import HtmxRequest, Page, frame_of, render_page
from diagnostics.views.source_cures import Cure, cures
from diagnostics.views.sparkline import Sparkline, sparkline

POLLS_SHOWN = 20
POLLS_DRAWN = 120
NEWEST = 8
FAR_FROM_USUAL = 2
"""Times as long, or as short, that the newest of them take (ours)."""


@dataclass(frozen=True, kw_only=True)
class SkippedObjects:
    reason: str
    count: int
    example: str


@dataclass(frozen=True, kw_only=True)
class SourceRow:
    name: str
    status: str
    detail: str
    items: int | None
    seconds: float | None
    skipped: tuple[SkippedObjects, ...]
    cures: tuple[Cure, ...]


@dataclass(frozen=True, kw_only=True)
class PollRow:
    status: str
    error: str
    taken_at: datetime
    took: timedelta
    stages: tuple[float | None, ...]
    """Milliseconds, in the order of `StatusPage.stages`."""
    nodes: int | None
    pods: int | None
    gpus: int | None
    findings: int | None
    """None where the poll failed: nothing was judged."""


@dataclass(frozen=True, kw_only=True)
class Durations:
    """How long the last polls took, as a chart and in words."""

    chart: Sparkline
    count: int
    failed: int
    usual: timedelta
    longest: timedelta
    newest: int
    """How many the newest of them are that `lately` is about."""
    lately: timedelta | None
    """What is usual of those, where it is far from what is usual of all."""
    since: datetime


@dataclass(frozen=True, kw_only=True)
class ClusterRow:
    """Another cluster of this site."""

    name: str
    url: str
    is_this: bool
    status: str
    """Of its last poll; empty before the first."""
    error: str
    polled_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Kept:
    """One kind of record, and for how long it is kept."""

    what: str
    span: timedelta


@dataclass(frozen=True, kw_only=True)
class StatusPage(Page):
    cluster_id: str
    is_identified: bool
    server_version: str
    every: timedelta
    clusters: tuple[ClusterRow, ...]
    """Empty where this is the only one."""
    sources: tuple[SourceRow, ...]
    blind: tuple[BlindSpot, ...]
    rules: tuple[RuleNote, ...]
    catalogue_size: int
    polls: tuple[PollRow, ...]
    stages: tuple[tuple[str, str], ...]
    """(stage, what happens in it)."""
    durations: Durations | None
    backfill: Progress | None
    """None where nothing ever had to be filled."""
    kept: tuple[Kept, ...]
    address: str


@require_safe
def status(request: HtmxRequest, slug: str) -> HttpResponse:
    cluster, frame, now = frame_of(slug, "status")
    polls = list(cluster.observations.all()[:POLLS_SHOWN])
    last = polls[0] if polls else None
    stages = _in_order({stage for poll in polls for stage in poll.stages_ms})
    page = StatusPage(
        frame=frame,
        now=now,
        cluster_id=cluster.identity,
        is_identified=cluster.is_identified,
        server_version=cluster.server_version,
        every=settings.POLL_INTERVAL,
        clusters=_clusters(cluster) if len(frame.clusters) > 1 else (),
        sources=tuple(_source(raw, slug) for raw in last.sources) if last else (),
        blind=blind_spots(last) if last else (),
        rules=rule_notes(last) if last else (),
        catalogue_size=len(catalogue()),
        polls=tuple(_poll(poll, stages) for poll in polls),
        stages=tuple((stage, STAGES.get(stage, "")) for stage in stages),
        durations=_durations(cluster),
        backfill=progress_of(cluster),
        kept=_kept(settings.RETENTION),
        address=request.get_full_path(),
    )
    return render_page(request, "pages/status.html", page, partial="live")


def _clusters(this: Cluster) -> tuple[ClusterRow, ...]:
    last = Observation.objects.filter(cluster=OuterRef("pk")).order_by("-pk")
    rows = Cluster.objects.annotate(
        poll_status=Subquery(last.values("status")[:1]),
        poll_error=Subquery(last.values("error")[:1]),
        polled_at=Subquery(last.values("finished_at")[:1]),
    )
    return tuple(
        ClusterRow(
            name=str(row),
            url=reverse("status", args=[row.slug]),
            is_this=row.pk == this.pk,
            status=row.poll_status or "",
            error=row.poll_error or "",
            polled_at=row.polled_at,
        )
        for row in rows
    )


def _source(raw: dict[str, Any], slug: str) -> SourceRow:
    return SourceRow(
        name=raw["name"],
        status=raw["status"],
        detail=raw.get("detail", ""),
        items=raw.get("items"),
        seconds=raw.get("seconds"),
        skipped=tuple(
            SkippedObjects(reason=s["reason"], count=s["count"], example=s.get("example", ""))
            for s in raw.get("skipped", ())
        ),
        cures=_cures(raw, slug),
    )


def _cures(raw: dict[str, Any], slug: str) -> tuple[Cure, ...]:
    try:
        source, state = Source(raw["name"]), SourceState(raw["status"])
    except ValueError:  # stored by another version
        return ()
    return cures(source, state, raw.get("detail", ""), slug, settings.CLUSTERS.get(slug))


def _in_order(stages: set[str]) -> tuple[str, ...]:
    """As they follow each other in a poll: PostgreSQL keeps JSON objects in an order of its own."""
    return (*(s for s in STAGES if s in stages), *sorted(stages.difference(STAGES)))


def _poll(poll: Observation, stages: tuple[str, ...]) -> PollRow:
    is_judged = poll.status != Observation.Status.FAILED
    return PollRow(
        status=poll.status,
        error=poll.error,
        taken_at=poll.taken_at,
        took=poll.finished_at - poll.started_at,
        stages=tuple(poll.stages_ms.get(stage) for stage in stages),
        nodes=poll.nodes,
        pods=poll.pods,
        gpus=poll.gpus,
        findings=poll.critical + poll.warning + poll.info if is_judged else None,
    )


def _durations(cluster: Cluster) -> Durations | None:
    """One query."""
    rows = cluster.observations.values_list("taken_at", "started_at", "finished_at", "status")[:POLLS_DRAWN]
    polls = [(at, ended - began, state == Observation.Status.FAILED) for at, began, ended, state in rows][
        ::-1
    ]
    if not polls:
        return None
    took = [length for _, length, _ in polls]
    usual, lately = _usual(took), _usual(took[-NEWEST:])
    return Durations(
        chart=sparkline(
            [length.total_seconds() for length in took],
            [
                f"{at:%H:%M} UTC: {_words(length)}{', failed' if failed else ''}"
                for at, length, failed in polls
            ],
            [failed for _, _, failed in polls],
        ),
        count=len(polls),
        failed=sum(failed for _, _, failed in polls),
        usual=usual,
        longest=max(took),
        newest=NEWEST,
        lately=None if usual / FAR_FROM_USUAL <= lately <= usual * FAR_FROM_USUAL else lately,
        since=polls[0][0],
    )


def _usual(took: Sequence[timedelta]) -> timedelta:
    return timedelta(seconds=median(length.total_seconds() for length in took))


def _words(length: timedelta) -> str:
    seconds = length.total_seconds()
    return f"{seconds:.1f} s" if seconds < 60 else span(length)


def _kept(retention: Retention) -> tuple[Kept, ...]:
    hints = get_type_hints(Retention, include_extras=True)
    return tuple(
        Kept(
            what=next(str(m.description) for m in hints[name].__metadata__ if isinstance(m, Meta)).rstrip(
                "."
            ),
            span=getattr(retention, name),
        )
        for name in Retention.__struct_fields__
    )
