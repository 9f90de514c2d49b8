"""Rules: the catalogue, each with the documentation that stands in its own module."""

import re
from dataclasses import dataclass

from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_safe

from diagnostics.limits import Thresholds
from diagnostics.rules import RETIRED, catalogue
from diagnostics.rules.base import SECTIONS, Rule
from diagnostics.rules.documentation import shown
from diagnostics.views.page import HtmxRequest, Page, bare_frame, render_page

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


@dataclass(frozen=True, kw_only=True)
class RuleListPage(Page):
    families: tuple[tuple[str, tuple[RuleRow, ...]], ...]
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


@require_safe
def rule_list(request: HtmxRequest) -> HttpResponse:
    rules = catalogue()
    families: dict[str, list[RuleRow]] = {}
    for rule in rules:
        families.setdefault(rule.family, []).append(_row(rule))
    page = RuleListPage(
        frame=bare_frame("rules"),
        now=timezone.now(),
        families=tuple((_family(name), tuple(rows)) for name, rows in families.items()),
        total=len(rules),
    )
    return render_page(request, "pages/rule_list.html", page)


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
    page = RuleDetailPage(
        frame=bare_frame("rules"),
        now=timezone.now(),
        row=_row(rule),
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
    )
    return render_page(request, "pages/rule_detail.html", page)


def _limits(rule: Rule) -> tuple[tuple[str, str], ...]:
    defaults = Thresholds()
    named = dict.fromkeys(re.findall(r"`(\w+)`", "\n".join(rule.sections.values())))
    return tuple(
        (name, shown(name, getattr(defaults, name))) for name in named if name in Thresholds.__struct_fields__
    )


def _family(name: str) -> str:
    return FAMILIES.get(name, name.replace("_", " ").capitalize())


def _row(rule: Rule) -> RuleRow:
    return RuleRow(code=rule.code, slug=rule.slug, severity=rule.severity.value, title=rule.title.rstrip("."))
