"""Rules: the catalogue, each with the documentation that stands in its own module, and what it has found."""

from collections import Counter
from dataclasses import dataclass

from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from diagnostics.findings import Severity
from diagnostics.limits import Thresholds
from diagnostics.models import Incident, Observation
from diagnostics.rules import RETIRED, catalogue
from diagnostics.rules.base import SECTIONS, Rule
from diagnostics.rules.documentation import named_limits, shown
from diagnostics.views import asked
from diagnostics.views.exempted import ExemptedFindings, exempted_by
from diagnostics.views.page import Frame, HtmxRequest, Page, bare_frame, render_page

FAMILIES = {
    "hardware": "Hardware",
    "stack": "Driver, operator and device plugin",
    "scheduling": "Scheduling and placement",
    "memory": "Memory",
    "waste": "Waste",
    "speed": "Speed",
    "distributed": "Distributed training",
    "frameworks": "Frameworks and model servers",
    "blind_spots": "Blind spots",
}


@dataclass(frozen=True, kw_only=True)
class RuleRow:
    code: str
    slug: str
    severity: str
    title: str
    open: int | None = None
    """Findings of it that are open in the chosen cluster, or in all of them; None where no poll has judged yet."""
    open_url: str = ""
    """Where they are listed; empty while no cluster is chosen."""
    is_blind_spot: bool = False
    """It makes no findings: what it reports stands on the status page."""


@dataclass(frozen=True, kw_only=True)
class Filters(asked.Filters):
    neutral = frozenset({"cluster"})

    family: str = ""
    severity: str = ""
    cluster: str = ""
    """Slug of the cluster whose findings are counted."""


@dataclass(frozen=True, kw_only=True)
class RuleListPage(Page):
    filters: Filters
    families: tuple[tuple[str, tuple[RuleRow, ...]], ...]
    all_families: tuple[tuple[str, str], ...]
    """(name, heading) of the families that have a rule."""
    severities: tuple[str, ...]
    shown: int
    total: int


@dataclass(frozen=True, kw_only=True)
class RuleDetailPage(Page):
    row: RuleRow
    family: str
    sections: tuple[tuple[str, str], ...]
    needs: tuple[str, ...]
    uses: tuple[str, ...]
    hold: int
    limits: tuple[tuple[str, str], ...]
    """(name, default with its unit) of each limit that the documentation names."""
    caused_by: tuple[RuleRow, ...]
    symptoms: tuple[RuleRow, ...]
    exempted: ExemptedFindings


@require_safe
def rule_list(request: HtmxRequest) -> HttpResponse:
    frame = bare_frame("rules")
    filters = _filters(request.GET, frame)
    counts = _open_findings(filters.cluster)
    rules = catalogue()
    families: dict[str, list[RuleRow]] = {}
    for rule in rules:
        if _matches(rule, filters):
            families.setdefault(rule.family, []).append(_row(rule, counts, filters.cluster))
    page = RuleListPage(
        frame=frame,
        now=timezone.now(),
        filters=filters,
        families=tuple((_family(name), tuple(rows)) for name, rows in families.items()),
        all_families=tuple((name, _family(name)) for name in dict.fromkeys(rule.family for rule in rules)),
        severities=tuple(Severity),
        shown=sum(map(len, families.values())),
        total=len(rules),
    )
    return render_page(request, "pages/rule_list.html", page, partial="catalogue")


@require_safe
def rule_detail(request: HtmxRequest, code: str) -> HttpResponse:
    rules = {rule.code: rule for rule in catalogue()}
    rule = rules.get(code) or next((r for r in rules.values() if r.slug == code), None)
    if rule is None:
        replaced = RETIRED.get(code)
        msg = f"Rule {code} is retired: {replaced}" if replaced else "There is no such rule."
        raise Http404(msg)
    if rule.code != code:
        return redirect("rule_detail", code=rule.code)
    by_slug = {r.slug: r for r in rules.values()}
    frame = bare_frame("rules")
    cluster = frame.home.slug if frame.home else ""
    page = RuleDetailPage(
        frame=frame,
        now=timezone.now(),
        row=_row(rule, _open_findings(cluster), cluster),
        family=_family(rule.family),
        sections=tuple((name, rule.sections[name]) for name in SECTIONS if name in rule.sections),
        needs=tuple(sorted(rule.needs)),
        uses=tuple(sorted(rule.uses)),
        hold=rule.hold,
        limits=_limits(rule),
        caused_by=tuple(
            _row(by_slug[slug]) for slug in (*rule.caused_by, *rule.starved_by) if slug in by_slug
        ),
        symptoms=tuple(_row(r) for r in rules.values() if rule.slug in (*r.caused_by, *r.starved_by)),
        exempted=exempted_by(rule.code, cluster),
    )
    return render_page(request, "pages/rule_detail.html", page)


def _filters(query: QueryDict, frame: Frame) -> Filters:
    clusters = {link.slug for link in frame.clusters}
    return Filters(
        q=asked.search(query),
        family=asked.text(query, "family"),
        severity=asked.choice(query, "severity", set(Severity)),
        cluster=asked.choice(query, "cluster", clusters, frame.home.slug if frame.home else ""),
    )


def _matches(rule: Rule, filters: Filters) -> bool:
    if filters.family not in {"", rule.family} or filters.severity not in {"", rule.severity}:
        return False
    return filters.mention(rule.code, rule.slug, rule.title, *rule.sections.values())


def _open_findings(cluster: str) -> Counter[str] | None:
    """Slug of a rule -> findings that are open in `cluster`, or in all of them if it is empty; None before the first
    poll that judged. Two queries at most.
    """
    opened, judged = Incident.objects.opened(), Observation.objects.exclude(status=Observation.Status.FAILED)
    if cluster:
        opened, judged = opened.filter(cluster__slug=cluster), judged.filter(cluster__slug=cluster)
    counts = Counter(opened.order_by().values_list("slug", flat=True))
    return counts if counts or judged.exists() else None


def _limits(rule: Rule) -> tuple[tuple[str, str], ...]:
    defaults = Thresholds()
    return tuple((name, shown(name, getattr(defaults, name))) for name in named_limits(rule))


def _family(name: str) -> str:
    return FAMILIES.get(name, name.replace("_", " ").capitalize())


def _row(rule: Rule, counts: Counter[str] | None = None, cluster: str = "") -> RuleRow:
    count = None if counts is None else counts[rule.slug]
    listed = reverse("finding_list", args=[cluster]) if cluster else ""
    return RuleRow(
        code=rule.code,
        slug=rule.slug,
        severity=rule.severity.value,
        title=rule.title.rstrip("."),
        open=count,
        open_url=f"{listed}?{urlencode({'rule': rule.slug})}" if listed and count else "",
        is_blind_spot=rule.family == "blind_spots",
    )
