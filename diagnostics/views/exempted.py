"""What rules found and did not raise, because an annotation or the site's overrides exempt it there."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import OuterRef, Subquery

from diagnostics.models import Cluster, Observation
from diagnostics.rules import catalogue
from diagnostics.views.subjects import subject_url, subject_words

MOST_SHOWN = 100


@dataclass(frozen=True, kw_only=True)
class ExemptedLine:
    cluster: str
    """Slug."""
    code: str
    rule: str
    """Its title; empty for one that the catalogue no longer has."""
    subject: str
    url: str
    """Of the subject's page; empty where it has none."""
    reason: str


@dataclass(frozen=True, kw_only=True)
class ExemptedFindings:
    """Of the last poll that judged; of each cluster, where that of several is asked for."""

    count: int
    lines: tuple[ExemptedLine, ...]
    has_several_clusters: bool = False

    @property
    def more(self) -> int:
        """Beyond those that are shown."""
        return self.count - len(self.lines)


def exempted_findings(
    polls: Iterable[tuple[str, Sequence[Any]]], code: str | None = None
) -> ExemptedFindings:
    """`polls`: slug of a cluster and what its last poll stored as `exempted`; `code`: of this rule alone."""
    titles = {rule.code: rule.title.rstrip(".") for rule in catalogue()}
    groups = [
        (slug, group) for slug, groups in polls for group in groups if code is None or group["code"] == code
    ]
    lines = (
        ExemptedLine(
            cluster=slug,
            code=group["code"],
            rule=titles.get(group["code"], ""),
            subject=subject_words(one["kind"], one["namespace"], one["name"]),
            url=subject_url(slug, one["kind"], one["namespace"], one["name"]),
            reason=one["reason"],
        )
        for slug, group in groups
        for one in group["kept"]
    )
    return ExemptedFindings(
        count=sum(group["count"] for _, group in groups),
        lines=tuple(lines)[:MOST_SHOWN],
        has_several_clusters=len({slug for slug, _ in groups}) > 1,
    )


def exempted_by(code: str, cluster: str) -> ExemptedFindings:
    """What one rule found and did not raise, in `cluster` or in all of them if it is empty. One query."""
    judged = Observation.objects.filter(cluster=OuterRef("pk")).exclude(status=Observation.Status.FAILED)
    last = Cluster.objects.annotate(last=Subquery(judged.order_by("-pk").values("pk")[:1])).values("last")
    polls = Observation.objects.filter(pk__in=last.filter(slug=cluster) if cluster else last)
    return exempted_findings(polls.order_by("cluster__slug").values_list("cluster__slug", "exempted"), code)
