"""Findings: what is wrong now, causes first with their symptoms under them."""

from collections import Counter
from dataclasses import dataclass

from django.core.paginator import Paginator
from django.db.models import Q
from django.http import HttpResponse, QueryDict
from django.views.decorators.http import require_safe

from diagnostics.findings import Severity
from diagnostics.models import Cluster, Incident, Observation
from diagnostics.views import asked
from diagnostics.views.exempted import ExemptedFindings, exempted_findings
from diagnostics.views.finding_groups import FindingRow, Sort, grouped
from diagnostics.views.page import HtmxRequest, Page, frame_of, render_page
from diagnostics.views.pages_of import Pages, pages_of

GROUPS_PER_PAGE = 100
ME, NOBODY = "me", "nobody"
"""Words of an address that stand for no user's name: those are written `user:<name>`."""
ANSWERS = ("yes", "no")
SORTS = {
    Sort.SEVERITY: "Severity",
    Sort.GPUS: "Most GPUs",
    Sort.WASTE: "Most waste",
    Sort.AGE: "Oldest",
}


@dataclass(frozen=True, kw_only=True)
class Filters(asked.Filters):
    severity: str = ""
    namespace: str = ""
    rule: str = ""
    assignee: str = ""
    """`me`, `nobody` or `user:<name>`."""
    acknowledged: str = ""
    """One of `ANSWERS`."""
    sort: Sort = Sort.SEVERITY


@dataclass(frozen=True, kw_only=True)
class Looked:
    """How much of the catalogue the last poll could judge: without it, "no findings" says nothing."""

    skipped: int
    partial: int
    failed: int
    blind: int

    @property
    def is_complete(self) -> bool:
        return not (self.skipped or self.partial or self.failed or self.blind)


@dataclass(frozen=True, kw_only=True)
class FindingListPage(Page):
    filters: Filters
    severities: tuple[str, ...]
    namespaces: tuple[str, ...]
    rules: tuple[tuple[str, str], ...]
    """(slug, code) of the rules with an open finding."""
    assignees: tuple[str, ...]
    """Names of the others who have an open finding to look after."""
    answers: tuple[str, ...]
    sorts: tuple[tuple[str, str], ...]
    """(value, words)."""
    rows: tuple[FindingRow, ...]
    pages: Pages
    counts: tuple[tuple[str, int], ...]
    """(severity, number), over what the filters leave."""
    total: int
    """Open findings before filtering."""
    looked: Looked | None
    """None before the first poll."""
    exempted: ExemptedFindings
    """Whatever the filters leave."""
    address: str
    """Of this list with its filters: where a live page asks again."""
    link: str
    """The same, to be passed on."""


@require_safe
def finding_list(request: HtmxRequest, slug: str) -> HttpResponse:
    cluster, frame, now = frame_of(slug, "findings")
    filters = _filters(request.GET)
    opened = cluster.incidents.opened()
    everything = opened.values_list("subject_namespace", "slug", "code", "assignee__username")
    me = request.user.get_username()
    # Names alone of who is assigned: a row of users has more than a page may know.
    matching = list(
        opened.filter(_matches(filters, me)).select_related("assignee").only(*_SHOWN, "assignee__username")
    )
    looked, exempted = _looked(cluster)
    paginator = Paginator(grouped(cluster, matching, filters.sort), GROUPS_PER_PAGE)
    shown = paginator.get_page(request.GET.get("page"))
    counted = Counter(incident.severity for incident in matching)
    page = FindingListPage(
        frame=frame,
        now=now,
        filters=filters,
        severities=tuple(Severity),
        namespaces=tuple(sorted({namespace for namespace, *_ in everything if namespace})),
        rules=tuple(sorted({(rule, code) for _, rule, code, _ in everything}, key=lambda pair: pair[1])),
        assignees=tuple(sorted({name for *_, name in everything if name and name != me})),
        answers=ANSWERS,
        sorts=tuple((sort if sort is not Sort.SEVERITY else "", words) for sort, words in SORTS.items()),
        rows=tuple(shown),
        pages=pages_of(shown),
        counts=tuple((severity.value, counted[severity]) for severity in Severity if counted[severity]),
        total=len(everything),
        looked=looked,
        exempted=exempted,
        address=request.get_full_path(),
        link=request.build_absolute_uri(),
    )
    return render_page(request, "pages/finding_list.html", page, partial="live")


_SHOWN = (
    *("fingerprint", "code", "slug", "status", "severity", "severity_rank", "title", "gpus", "waste_gpus"),
    *("subject_kind", "subject_namespace", "subject_name", "opened_at", "reopened_at", "first_seen"),
)


def _filters(query: QueryDict) -> Filters:
    return Filters(
        q=asked.search(query),
        severity=asked.choice(query, "severity", set(Severity)),
        namespace=asked.text(query, "namespace"),
        rule=asked.text(query, "rule"),
        assignee=asked.text(query, "assignee"),
        acknowledged=asked.choice(query, "acknowledged", ANSWERS),
        sort=Sort(asked.choice(query, "sort", set(Sort), Sort.SEVERITY)),
    )


def _matches(filters: Filters, me: str) -> Q:
    wanted = words_in(filters.q)
    if filters.severity:
        wanted &= Q(severity=filters.severity)
    if filters.namespace:
        wanted &= Q(subject_namespace=filters.namespace)
    if filters.rule:
        wanted &= Q(slug=filters.rule)
    if filters.acknowledged:
        acknowledged = Q(status=Incident.Status.ACKNOWLEDGED)
        wanted &= acknowledged if filters.acknowledged == "yes" else ~acknowledged
    if filters.assignee == NOBODY:
        wanted &= Q(assignee=None)
    elif filters.assignee:
        name = me if filters.assignee == ME else filters.assignee.removeprefix("user:")
        wanted &= Q(assignee__username=name)
    return wanted


def words_in(text: str) -> Q:
    """Incidents that hold each word of `text` somewhere."""
    wanted = Q()
    for word in text.split():
        wanted &= (
            Q(title__icontains=word)
            | Q(subject_name__icontains=word)
            | Q(subject_namespace__icontains=word)
            | Q(code__iexact=word)
            | Q(cause__icontains=word)
        )
    return wanted


def _looked(cluster: Cluster) -> tuple[Looked | None, ExemptedFindings]:
    """By the last poll that judged: how far it looked, and what it found that is exempt. One query."""
    last = (
        cluster.observations.exclude(status=Observation.Status.FAILED)
        .values_list("rules_skipped", "rules_partial", "rules_failed", "coverage", "exempted")
        .order_by("-pk")
        .first()
    )
    if last is None:
        return None, exempted_findings(())
    *unseen, exempted = last
    looked = Looked(**dict(zip(("skipped", "partial", "failed", "blind"), map(len, unseen), strict=True)))
    return looked, exempted_findings([(cluster.slug, exempted)])
