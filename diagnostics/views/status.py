"""Status: which sources answered, what cannot be seen and the line that cures it, and how the last polls went."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from diagnostics.models import Observation
from diagnostics.models.observation import STAGES
from diagnostics.rules import catalogue
from diagnostics.views.page import HtmxRequest, Page, frame_of, render_page

POLLS_SHOWN = 20


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


@dataclass(frozen=True, kw_only=True)
class BlindSpot:
    code: str
    url: str
    what: str
    cure: str


@dataclass(frozen=True, kw_only=True)
class RuleNote:
    """A rule that could not look, looked at part of the data, or broke."""

    code: str
    url: str
    title: str
    outcome: str
    why: str


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
class StatusPage(Page):
    cluster_id: str
    is_identified: bool
    server_version: str
    every: timedelta
    sources: tuple[SourceRow, ...]
    blind: tuple[BlindSpot, ...]
    rules: tuple[RuleNote, ...]
    catalogue_size: int
    polls: tuple[PollRow, ...]
    stages: tuple[str, ...]
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
        sources=tuple(_source(raw) for raw in last.sources) if last else (),
        blind=tuple(_blind(raw) for raw in last.coverage) if last else (),
        rules=_notes(last) if last else (),
        catalogue_size=len(catalogue()),
        polls=tuple(_poll(poll, stages) for poll in polls),
        stages=stages,
        address=request.get_full_path(),
    )
    return render_page(request, "pages/status.html", page, partial="live")


def _source(raw: dict[str, Any]) -> SourceRow:
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
    )


def _blind(raw: dict[str, Any]) -> BlindSpot:
    return BlindSpot(code=raw["code"], url=_rule_url(raw["code"]), what=raw["what"], cure=raw["cure"])


def _notes(last: Observation) -> tuple[RuleNote, ...]:
    titles = {rule.code: rule.title for rule in catalogue()}
    outcomes = (
        ("failed", last.rules_failed, "error"),
        ("could not look", last.rules_skipped, "reason"),
        ("looked at part", last.rules_partial, "reason"),
    )
    return tuple(
        RuleNote(
            code=raw["code"],
            url=_rule_url(raw["code"]),
            title=titles.get(raw["code"], ""),
            outcome=outcome,
            why=raw.get(key, ""),
        )
        for outcome, rows, key in outcomes
        for raw in rows
    )


def _rule_url(code: str) -> str:
    """Empty for a rule that the catalogue no longer has."""
    return reverse("rule_detail", args=[code]) if any(rule.code == code for rule in catalogue()) else ""


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
