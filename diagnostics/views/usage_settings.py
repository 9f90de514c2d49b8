"""Team rules and prices: read by everybody, entered by those who may, with what they come to and who changed them."""

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from diagnostics.models import Cluster, Price, TeamRule, UsageEdit, User
from diagnostics.usage import entering
from diagnostics.usage.entering import written
from diagnostics.usage.mapping import price_line, team_rule
from diagnostics.usage.preview import PricedModel, Shares, owners, priced_models, shares
from diagnostics.views.page import HtmxRequest, Page, bare_frame, render_page
from diagnostics.views.sending import NotSent, send
from diagnostics.views.usage_forms import PriceForm, TeamRuleForm

EDITS_SHOWN = 30
TEAMS_SHOWN = 20
TASK = "diagnostics.tasks.roll_up_usage"
RULE, PRICE = "rule", "price"

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TeamRow:
    name: str
    workloads: int
    before: int | None
    """Without the rule that is tried out; None where none is."""


@dataclass(frozen=True, kw_only=True)
class RuleRow:
    rule: TeamRule
    decided: int | None
    """Workloads of the cluster shown whose team it names; None where it does not concern that cluster."""


@dataclass(frozen=True, kw_only=True)
class UsageSettingsPage(Page):
    rules: tuple[RuleRow, ...]
    prices: tuple[tuple[Price, str], ...]
    """With the price as people write it."""
    rule_form: TeamRuleForm
    price_form: PriceForm
    may_rules: bool
    may_prices: bool
    clusters: tuple[Cluster, ...]
    cluster: Cluster | None
    """Whose workloads and models are shown; None while there is none."""
    teams: tuple[TeamRow, ...]
    more_teams: int
    workloads: int
    by_namespace: int
    """Workloads that no rule matches."""
    is_trial: bool
    """The teams are those that a rule would make that is not saved."""
    models: tuple[tuple[PricedModel, str], ...]
    """With the price that wins; empty text where none is known."""
    edits: tuple[UsageEdit, ...]


@require_http_methods(["GET", "HEAD", "POST"])
def usage_settings(request: HtmxRequest) -> HttpResponse:
    if request.method == "POST":
        return _posted(request)
    rule = _row(TeamRule, request.GET.get(RULE, ""))
    price = _row(Price, request.GET.get(PRICE, ""))
    return _page(request, TeamRuleForm(instance=rule), PriceForm(instance=price))


def _posted(request: HtmxRequest) -> HttpResponse:
    """`what`: rule or price; `action`: save, try or remove; `pk`: which, unless it is new."""
    what, action, pk = (request.POST.get(key, "") for key in ("what", "action", "pk"))
    is_rule = what == RULE
    if not _may(request.user, RULE if is_rule else PRICE):
        raise PermissionDenied
    rule = _row(TeamRule, pk) if is_rule else None
    price = None if is_rule else _row(Price, pk)
    row = rule or price
    if pk and row is None:
        messages.warning(request, "Somebody else has removed that meanwhile.")
        return redirect("usage_settings")
    if action == "remove" and row is not None:
        said = entering.in_words(row)
        entering.remove(row, _user(request))
        return _done(request, is_rule, f"Removed: {said}")
    form = TeamRuleForm(request.POST, instance=rule) if is_rule else PriceForm(request.POST, instance=price)
    is_valid = form.is_valid()
    if is_valid and action == "save":
        entering.enter(form.instance, _user(request))
        return _done(request, is_rule, f"Saved: {entering.in_words(form.instance)}")
    rule_form = form if isinstance(form, TeamRuleForm) else TeamRuleForm()
    price_form = form if isinstance(form, PriceForm) else PriceForm()
    trial = form.instance if is_valid and isinstance(form, TeamRuleForm) else None
    return _page(request, rule_form, price_form, trial=trial, status=200 if is_valid else 422)


def _done(request: HtmxRequest, is_rule: bool, words: str) -> HttpResponse:
    messages.success(request, words)
    if is_rule:
        _roll_up_soon()
    return redirect("usage_settings")


def _roll_up_soon() -> None:
    """So that a new label counts as fast as the old ones. If nobody takes it, the hourly run does."""
    try:
        send(TASK, expires=timedelta(hours=1))
    except NotSent as error:
        log.warning("the roll-ups wait for their hour: %s", error)


def _page(
    request: HtmxRequest,
    rule_form: TeamRuleForm,
    price_form: PriceForm,
    *,
    trial: TeamRule | None = None,
    status: int = 200,
) -> HttpResponse:
    now = timezone.now()
    clusters = tuple(Cluster.objects.all())
    wanted = request.GET.get("cluster", "")
    cluster = next((c for c in clusters if c.slug == wanted), clusters[0] if clusters else None)
    rules = list(TeamRule.objects.select_related("cluster"))
    prices = tuple(Price.objects.select_related("cluster"))
    concerned = [rule for rule in rules if cluster and rule.cluster_id in {None, cluster.pk}]
    found = owners(cluster, now) if cluster else []
    as_saved = shares(found, [team_rule(rule) for rule in concerned])
    tried = shares(found, [team_rule(rule) for rule in _with(concerned, trial, cluster)]) if trial else None
    teams = _teams(as_saved, tried)
    lines = [
        price_line(row)
        for row in sorted(prices, key=lambda row: row.pk)
        if cluster and row.cluster_id in {None, cluster.pk}
    ]
    places = {rule.pk: place for place, rule in enumerate(concerned)}
    page = UsageSettingsPage(
        frame=bare_frame("usage_settings"),
        now=now,
        rules=tuple(
            RuleRow(
                rule=rule,
                decided=as_saved.decided.get(places[rule.pk], 0) if rule.pk in places else None,
            )
            for rule in rules
        ),
        prices=tuple((price, written(price.per_gpu_hour)) for price in prices),
        rule_form=rule_form,
        price_form=price_form,
        may_rules=_may(request.user, RULE),
        may_prices=_may(request.user, PRICE),
        clusters=clusters,
        cluster=cluster,
        teams=teams[:TEAMS_SHOWN],
        more_teams=max(0, len(teams) - TEAMS_SHOWN),
        workloads=as_saved.workloads,
        by_namespace=(tried or as_saved).by_namespace,
        is_trial=trial is not None,
        models=tuple(
            (model, written(model.line.per_gpu_hour) if model.line else "")
            for model in (priced_models(cluster, lines, now) if cluster else ())
        ),
        edits=tuple(UsageEdit.objects.all()[:EDITS_SHOWN]),
    )
    response = render_page(request, "pages/usage_settings.html", page)
    response.status_code = status
    return response


def _teams(as_saved: Shares, tried: Shares | None) -> tuple[TeamRow, ...]:
    if tried is None:
        return tuple(TeamRow(name=name, workloads=n, before=None) for name, n in as_saved.teams.items())
    names = [*tried.teams, *(name for name in as_saved.teams if name not in tried.teams)]
    rows = [
        TeamRow(name=name, workloads=tried.teams.get(name, 0), before=as_saved.teams.get(name, 0))
        for name in names
    ]
    return tuple(sorted(rows, key=lambda row: row.workloads == row.before))


def _with(rules: list[TeamRule], trial: TeamRule, cluster: Cluster | None) -> list[TeamRule]:
    """In the order that they would have."""
    others = [rule for rule in rules if rule.pk != trial.pk]
    if cluster is None or trial.cluster_id not in {None, cluster.pk}:
        return others
    last = max((rule.pk for rule in rules), default=0) + 1
    return sorted([*others, trial], key=lambda rule: (rule.priority, rule.pk or last))


def _row[R: (TeamRule, Price)](model: type[R], pk: str) -> R | None:
    """The row of that key; None for none."""
    if not (pk.isascii() and pk.isdigit() and len(pk) < 19):
        return None
    return model._default_manager.filter(pk=int(pk)).select_related("cluster").first()


def _may(user: Any, what: str) -> bool:
    """Staff, and whoever was given the right to change these rows."""
    permission = "diagnostics.change_teamrule" if what == RULE else "diagnostics.change_price"
    return bool(user.is_active and (user.is_staff or user.has_perm(permission)))


def _user(request: HtmxRequest) -> User:
    assert isinstance(request.user, User)  # noqa: S101 - LoginRequiredMiddleware sees to it
    return request.user
