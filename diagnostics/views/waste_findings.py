"""What is said of a workload that wastes: its open finding, or why there is none."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.db.models import Case, Q, Subquery, When
from django.urls import reverse

from diagnostics.findings import Subject
from diagnostics.incidents.recording import EXEMPT
from diagnostics.models import Cluster, Observation, Workload
from diagnostics.models.incident import OPEN_STATUSES, IncidentStatus
from diagnostics.rules import catalogue
from diagnostics.rules.base import Rule
from diagnostics.snapshot import State
from diagnostics.templatetags.gpuhealth import state_name
from diagnostics.usage import Saving
from diagnostics.usage.groups import Name
from diagnostics.views.page import finding_url
from diagnostics.views.subjects import fingerprints

REPORTED_BY = {
    State.IDLE_EMPTY: "idle-gpu",
    State.IDLE_HELD: "idle-gpu",
    State.BLOCKED: "partial-gang",
    State.STUCK: "stuck-holder",
}
"""Kind of waste -> slug of the rule that reports it; the other kinds no rule reports."""


@dataclass(frozen=True, kw_only=True)
class About:
    """A finding about a workload, open or not; or why nothing was ever found. Everything is shown as text."""

    severity: str = ""
    """Empty where no finding is open."""
    title: str = ""
    url: str = ""
    """Of the finding; of what explains that there is none, a page of ours."""
    why: str = ""
    """None is open, because."""
    resolved_at: datetime | None = None


class _Told(NamedTuple):
    """One incident."""

    pk: int
    fingerprint: str
    slug: str
    status: str
    severity: str
    severity_rank: int
    title: str
    waste_gpus: float | None
    resolved_at: datetime | None
    resolution: str

    @property
    def most_waste_first(self) -> tuple[bool, float, int, int]:
        return (self.waste_gpus is None, -(self.waste_gpus or 0.0), self.severity_rank, self.pk)


class Findings:
    """Names of workloads, and what is said of those that waste most. Two queries."""

    def __init__(self, cluster: Cluster, start: datetime) -> None:
        """`start`: what was resolved before is no reason."""
        self.cluster, self.start = cluster, start
        self._told: dict[int, list[_Told]] = defaultdict(list)
        self._exempted: list[dict[str, Any]] = []
        self._blind: dict[str, str] = {}

    def names(self, groups: list[int], savings: list[int]) -> dict[int, Name]:
        if not groups and not savings:
            return {}
        last = self.cluster.observations.exclude(status=Observation.Status.FAILED).order_by("-pk")
        # What the last poll said comes with one of the rows.
        first = Q(pk=savings[0]) if savings else Q(pk__in=[])
        said = (
            Case(When(first, then=Subquery(last.values(field)[:1])))
            for field in ("exempted", "rules_skipped")
        )
        rows = Workload.objects.filter(pk__in={*groups, *savings})
        names: dict[int, Name] = {}
        for pk, kind, namespace, name, exempted, skipped in rows.values_list(
            "pk", "kind", "namespace", "name", *said
        ):
            names[pk] = (kind, namespace, name) if kind else None
            self._exempted += exempted or ()
            self._blind |= {rule["code"]: rule["reason"] for rule in skipped or ()}
        self._read({pk: name for pk in savings if (name := names.get(pk))})
        return names

    def _read(self, names: dict[int, tuple[str, ...]]) -> None:
        of = {
            known: pk
            for pk, (kind, namespace, name) in names.items()
            for known in fingerprints(self.cluster, Subject(kind, name, namespace))
        }
        known = self.cluster.incidents.filter(
            Q(resolved_at=None) | Q(resolved_at__gte=self.start), fingerprint__in=of
        )
        if of:
            # In no order: to sort, SQLite would read all incidents of the cluster instead of these by their index.
            for told in map(_Told._make, known.order_by().values_list(*_Told._fields)):
                self._told[of[told.fingerprint]].append(told)

    def about(self, saving: Saving) -> About:
        """What is open; else the first of these that holds: exempt, not open yet, over, looked at by no rule, not
        looked at by the last poll, less than a rule reports.
        """
        told = self._told[saving.workload]
        opened = [one for one in told if one.status in OPEN_STATUSES]
        if opened:
            worst = min(opened, key=lambda one: one.most_waste_first)
            return About(severity=worst.severity, title=worst.title, url=self._url(worst))
        by_state = {state: _rule_on(state) for state in saving.states}
        rules = {rule.slug: rule for rule in by_state.values() if rule}
        exempt = self._exempt(saving, rules)
        if exempt:
            return exempt
        told = [one for one in told if one.slug in rules]
        pending = [rules[one.slug] for one in told if one.status == IncidentStatus.PENDING]
        if pending:
            rule = min(pending, key=lambda rule: rule.code)
            return _by(rule, f"not yet: {rule.code} opens it once {rule.hold} polls in a row have seen it")
        over = max(told, key=lambda one: (one.resolved_at or self.start, one.pk), default=None)
        if over:
            return About(
                title=over.title, url=self._url(over), why=over.resolution, resolved_at=over.resolved_at
            )
        return self._nothing(*next(iter(by_state.items()), (None, None)))

    def _exempt(self, saving: Saving, rules: dict[str, Rule]) -> About | None:
        """By the last poll that judged."""
        by_code = {rule.code: rule for rule in rules.values()}
        for group in self._exempted:
            rule = by_code.get(group["code"])
            for one in group["kept"] if rule else ():
                if rule and (one["kind"], one["namespace"], one["name"]) == saving.name:
                    return _by(rule, f"{EXEMPT}{one['reason']}")
        return None

    def _nothing(self, state: State | None, rule: Rule | None) -> About:
        """No finding of the kind that wastes most is known."""
        if rule is None:
            return About(why=f'no rule reports "{state_name(state)}"')
        if rule.code in self._blind:
            return _by(rule, f"not evaluated: {rule.code} could not look, {self._blind[rule.code]}")
        exempted = {group["code"]: group["count"] - len(group["kept"]) for group in self._exempted}
        if exempted.get(rule.code):
            return _by(rule, f"exempt, or less than {rule.code} reports")
        return _by(rule, f"less than {rule.code} reports, or at a time that no poll judged")

    def _url(self, told: _Told) -> str:
        url = finding_url(self.cluster.slug, told.fingerprint)
        return f"{url}?{urlencode({'incident': told.pk})}" if told.resolved_at else url


def _rule_on(state: State) -> Rule | None:
    return next((rule for rule in catalogue() if rule.slug == REPORTED_BY.get(state)), None)


def _by(rule: Rule, why: str) -> About:
    return About(why=why, url=reverse("rule_detail", args=[rule.code]))
