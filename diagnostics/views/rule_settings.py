"""Exceptions: what this site judges differently from the catalogue; read by everybody, entered by those who may."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods

from diagnostics import overrides
from diagnostics.limits import SITE_ONLY, Override, Thresholds
from diagnostics.models import Cluster, OverrideEdit, RuleOverride, User
from diagnostics.overrides import override_of
from diagnostics.rules import catalogue
from diagnostics.rules.base import Rule
from diagnostics.rules.documentation import annotation_of, meanings, named_limits, shown
from diagnostics.views import asked
from diagnostics.views.override_forms import OverrideForm, judging
from diagnostics.views.page import HtmxRequest, Page, bare_frame, render_page
from diagnostics.views.pages_of import Pages, pages_of

PER_PAGE = 100
EDITS_SHOWN = 30
PERMISSION = "diagnostics.change_ruleoverride"


@dataclass(frozen=True, kw_only=True)
class OverrideRow:
    pk: int | None
    """None for one that the site declares."""
    rule: str
    """Slug; empty for every rule."""
    code: str
    """Empty for a rule that there is not, or no longer."""
    cluster: str
    """Slug; empty for every cluster."""
    namespace: str
    changes: tuple[str, ...]
    lost: tuple[str, ...]
    """Limits that it sets and that there are no longer."""
    reason: str
    expires_at: datetime | None
    is_over: bool
    is_replaced: bool = False
    """One that is entered stands in its place."""


@dataclass(frozen=True, kw_only=True)
class LimitRow:
    """A limit that the chosen rule reads."""

    name: str
    value: str
    """This site's, with its unit."""
    annotation: str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Entered:
    """One change of the history."""

    at: datetime
    by: str
    action: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True)
class RuleSettingsPage(Page):
    rule: str
    """Slug of the rule whose exceptions are shown; empty for those of all."""
    code: str
    limits: tuple[LimitRow, ...]
    rows: tuple[OverrideRow, ...]
    pages: Pages
    declared: tuple[OverrideRow, ...]
    may: bool
    form: OverrideForm
    edits: tuple[Entered, ...]
    address: str
    """Where an open page asks again."""


@require_http_methods(["GET", "HEAD", "POST"])
def rule_settings(request: HtmxRequest) -> HttpResponse:
    if request.method == "POST":
        return _posted(request)
    row = _row(request.GET.get("override", ""))
    if row is not None:
        return _page(request, OverrideForm(instance=row), row.rule)
    rule = asked.choice(request.GET, "rule", {rule.slug for rule in judging()})
    cluster = Cluster.objects.filter(slug=asked.text(request.GET, "cluster")).first()
    suggested = {"rule": rule, "namespace": asked.text(request.GET, "namespace"), "cluster": cluster}
    return _page(request, OverrideForm(initial=suggested), rule)


def _posted(request: HtmxRequest) -> HttpResponse:
    """`action`: save or remove; `pk`: which, unless it is new."""
    if not _may(request.user):
        raise PermissionDenied
    action, pk = (request.POST.get(key, "") for key in ("action", "pk"))
    row = _row(pk)
    if pk and row is None:
        messages.warning(request, "Somebody else has removed that meanwhile.")
        return redirect("rule_settings")
    if action == "remove" and row is not None:
        messages.success(request, f"Removed: {overrides.in_words(row)}. The next poll goes by it.")
        overrides.remove(row, _user(request))
        return redirect("rule_settings")
    form = OverrideForm(request.POST, instance=row)
    if form.is_valid() and action == "save":
        overrides.enter(form.instance, _user(request))
        messages.success(request, f"Saved: {overrides.in_words(form.instance)}. The next poll goes by it.")
        return redirect("rule_settings")
    response = _page(request, form, "")
    response.status_code = 422
    return response


def _page(request: HtmxRequest, form: OverrideForm, slug: str) -> HttpResponse:
    now = timezone.now()
    rules = {rule.slug: rule for rule in catalogue()}
    rule = rules.get(slug)
    known = RuleOverride.objects.select_related("cluster")
    edits: QuerySet[OverrideEdit] = OverrideEdit.objects.all()
    if slug:
        known, edits = known.filter(Q(rule=slug) | Q(rule="")), edits.filter(Q(rule=slug) | Q(rule=""))
    shown_page = Paginator(known, PER_PAGE).get_page(request.GET.get("page"))
    entered = {
        override_of(row).scope for row in known.filter(Q(expires_at=None) | Q(expires_at__gt=now))[:1000]
    }
    page = RuleSettingsPage(
        frame=bare_frame("rule_settings"),
        now=now,
        rule=slug,
        code=rule.code if rule else "",
        limits=_limits(rule) if rule else (),
        rows=tuple(_shown(row.pk, row, override_of(row), rules, now) for row in shown_page),
        pages=pages_of(shown_page),
        declared=tuple(
            _shown(None, one, one, rules, now, is_replaced=one.scope in entered)
            for one in settings.LIMITS.overrides
            if not slug or one.rule in {"", slug}
        ),
        may=_may(request.user),
        form=form,
        edits=tuple(
            Entered(at=edit.at, by=edit.actor_name, action=edit.action, before=edit.before, after=edit.after)
            for edit in edits[:EDITS_SHOWN]
        ),
        address=_address(slug, shown_page.number),
    )
    return render_page(request, "pages/rule_settings.html", page, partial="live")


def _address(slug: str, number: int) -> str:
    query = {key: value for key, value in (("rule", slug), ("page", number if number > 1 else "")) if value}
    return f"{reverse('rule_settings')}?{urlencode(query)}" if query else reverse("rule_settings")


def _shown(
    pk: int | None,
    row: RuleOverride | Override,
    override: Override,
    rules: dict[str, Rule],
    now: datetime,
    *,
    is_replaced: bool = False,
) -> OverrideRow:
    """`override`: what the rules are told of `row`."""
    rule = rules.get(override.rule)
    return OverrideRow(
        pk=pk,
        rule=override.rule,
        code=rule.code if rule else "",
        cluster=override.cluster,
        namespace=override.namespace,
        changes=tuple(_changes(override)),
        lost=tuple(name for name in row.values if name not in override.values),
        reason=override.reason,
        expires_at=override.expires_at,
        is_over=override.is_over(now),
        is_replaced=is_replaced,
    )


def _changes(override: Override) -> Iterator[str]:
    if override.exempt:
        yield "off"
    if override.severity:
        yield f"severity {override.severity}"
    for name, value in override.values.items():
        yield f"{name} {shown(name, value)}"


def _limits(rule: Rule) -> tuple[LimitRow, ...]:
    site: Thresholds = settings.LIMITS.site
    said = meanings()
    return tuple(
        LimitRow(
            name=name,
            value=shown(name, getattr(site, name)),
            annotation=annotation_of(name),
            meaning=said[name],
        )
        for name in named_limits(rule)
        if name not in SITE_ONLY
    )


def _row(pk: str) -> RuleOverride | None:
    """The row of that key; None for none."""
    if not (pk.isascii() and pk.isdigit() and len(pk) < 19):
        return None
    return RuleOverride.objects.select_related("cluster").filter(pk=int(pk)).first()


def _may(user: Any) -> bool:
    """Staff, and whoever was given the right to change exceptions."""
    return bool(user.is_active and (user.is_staff or user.has_perm(PERMISSION)))


def _user(request: HtmxRequest) -> User:
    assert isinstance(request.user, User)  # noqa: S101 - LoginRequiredMiddleware sees to it
    return request.user
