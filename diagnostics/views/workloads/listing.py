"""The list of workloads with GPU pods: what each holds and asks for, in which states, and what is wrong with it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.core.paginator import Paginator
from django.http import HttpResponse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from diagnostics.models import Cluster, Workload
from diagnostics.quantities import span
from diagnostics.snapshot import State
from diagnostics.storable import storable_text
from diagnostics.usage.mapping import team_rules
from diagnostics.usage.teams import By, Owner, Rule, team_of
from diagnostics.views.open_findings import FindingLine, open_findings
from diagnostics.views.page import HtmxRequest, Page, frame_of, node_url, render_page, workload_url
from diagnostics.views.pages_of import Pages, pages_of
from diagnostics.views.workloads.cells import mean_cell, states_cell
from diagnostics.views.workloads.found import concerning
from diagnostics.views.workloads.seen import Phase, Pods, Seen, all_seen, sight_of

WORKLOADS_PER_PAGE = 100
NODES_SHOWN = 1
LABELS_WITHIN = timedelta(hours=1)
"""Rows of workloads that are there were touched within this: `last_seen` lags behind by some minutes."""
WITH_FINDINGS = "any"


class Found(NamedTuple):
    """A workload with what the other sources say of it."""

    seen: Seen
    team: str
    findings: list[FindingLine]

    @property
    def rank(self) -> int:
        """Of its worst finding."""
        return self.findings[0].rank if self.findings else 9


@dataclass(frozen=True, kw_only=True)
class WorkloadRow:
    url: str
    """Empty where it has no address."""
    kind: str
    namespace: str
    name: str
    team: str
    phase: str
    counts: Pods
    wanted: int | None
    held: int
    states: SafeString
    utilization: SafeString
    activity: SafeString
    nodes: tuple[tuple[str, str], ...]
    """(name, address) of the first."""
    more_nodes: int
    findings: list[FindingLine]
    since: datetime | None


@dataclass(frozen=True, kw_only=True)
class Filters:
    """What the address asks for; empty text for no restriction."""

    q: str = ""
    namespace: str = ""
    team: str = ""
    kind: str = ""
    phase: str = ""
    state: str = ""
    """Of at least one of its GPUs."""
    findings: str = ""
    sort: str = ""

    @property
    def is_any(self) -> bool:
        return any((self.q, self.namespace, self.team, self.kind, self.phase, self.state, self.findings))


@dataclass(frozen=True, kw_only=True)
class WorkloadListPage(Page):
    filters: Filters
    namespaces: tuple[str, ...]
    teams: tuple[str, ...]
    kinds: tuple[str, ...]
    phases: tuple[str, ...]
    states: tuple[State, ...]
    sorts: tuple[tuple[str, str], ...]
    rows: tuple[WorkloadRow, ...] | None
    """None: no data."""
    pages: Pages | None
    why_not: str
    """Why there is no data, or why it is not the whole truth; empty when it is."""
    devices_why_not: str
    """The same of GPUs: their states and use."""
    metrics_why_not: str
    total: int
    """Workloads with pods that have not finished."""
    finished: int
    """Workloads left out because all their pods have finished."""
    held: int
    asked: int
    judged_over: str
    """What the states rest on: `30 min`."""
    legend: tuple[State, ...]
    address: str


NEVER = datetime.max.replace(tzinfo=UTC)


SORTS: dict[str, tuple[str, Callable[[Found], tuple[Any, ...]]]] = {
    "": ("Worst first", lambda found: (found.rank, -len(found.seen.cells), -found.seen.pods.asked)),
    "gpus": ("Most GPUs", lambda found: (-len(found.seen.cells), -found.seen.pods.asked)),
    "activity": (
        "Least active",
        # What was not measured is not idle: it comes last.
        lambda found: (
            found.seen.activity is None,
            found.seen.activity.ratio if found.seen.activity else 0,
            -len(found.seen.cells),
        ),
    ),
    "waiting": ("Most waiting pods", lambda found: (-found.seen.pods.waiting, -found.seen.pods.asked)),
    "oldest": ("Oldest", lambda found: (found.seen.pods.since or NEVER,)),
    "name": ("Name", lambda _: ()),
}


@require_safe
def workload_list(request: HtmxRequest, slug: str) -> HttpResponse:
    cluster, frame, now = frame_of(slug, "workloads")
    sight = sight_of(cluster)
    filters = _filters(request)
    everything: list[Found] = []
    if sight.workloads is not None:
        findings = open_findings(cluster)
        teams = Teams(cluster, sight.workloads.taken_at)
        everything = [Found(seen, teams.of(seen), concerning(seen, findings)) for seen in all_seen(sight)]
    present = [found for found in everything if found.seen.phase is not Phase.FINISHED]
    pool = everything if filters.phase == Phase.FINISHED else present
    matching = [found for found in pool if _is_wanted(found, filters)]
    shown = Paginator(_sorted(matching, filters.sort), WORKLOADS_PER_PAGE).get_page(request.GET.get("page"))
    has_data = sight.workloads is not None
    page = WorkloadListPage(
        frame=frame,
        now=now,
        filters=filters,
        namespaces=tuple(sorted({found.seen.owner.namespace for found in everything})),
        teams=tuple(sorted({found.team for found in everything})),
        kinds=tuple(sorted({found.seen.owner.kind for found in everything})),
        phases=tuple(Phase),
        states=tuple(state for state in State if state not in NEVER_HELD),
        sorts=tuple((key, label) for key, (label, _) in SORTS.items()),
        rows=tuple(_row(slug, found) for found in shown) if has_data else None,
        pages=pages_of(shown) if has_data else None,
        why_not=sight.doubt,
        devices_why_not=sight.devices_doubt if has_data and sight.devices_doubt != sight.doubt else "",
        metrics_why_not=sight.devices.metrics_doubt if sight.devices else "",
        total=len(present),
        finished=len(everything) - len(present),
        held=sum(len(found.seen.cells) for found in matching),
        asked=sum(found.seen.pods.asked for found in matching),
        judged_over=span(settings.LIMITS.site.window),
        legend=tuple(State),
        address=request.get_full_path(),
    )
    return render_page(request, "pages/workload_list.html", page, partial="live")


NEVER_HELD = frozenset({State.FREE, State.STRANDED})


class Teams:
    """Whose each workload is. One query, and one more where rules look at labels or annotations."""

    def __init__(self, cluster: Cluster, taken_at: datetime) -> None:
        self._rules: list[Rule] = team_rules(cluster)
        self._words: dict[tuple[str, str, str], dict[str, dict[str, str] | None]] = {}
        fields = [field for field, by in _MAPPED_BY.items() if any(rule.by == by for rule in self._rules)]
        if fields:
            rows = Workload.objects.filter(cluster=cluster, last_seen__gte=taken_at - LABELS_WITHIN)
            for kind, namespace, name, *words in rows.values_list("kind", "namespace", "name", *fields):
                self._words[kind, namespace, name] = dict(zip(fields, words, strict=True))

    def of(self, seen: Seen) -> str:
        """As the site maps it now; its namespace where no rule says otherwise."""
        kind, namespace, name = seen.owner.kind, seen.owner.namespace, seen.owner.name
        words = self._words.get((kind, namespace, name)) if self._words else None
        if self._words and words is None:
            key = storable_text(kind, 80), storable_text(namespace, 253), storable_text(name, 253)
            words = self._words.get(key)
        words = words or {}
        return team_of(
            Owner(namespace, words.get("labels") or {}, words.get("annotations") or {}), self._rules
        )


_MAPPED_BY = {"labels": By.LABEL, "annotations": By.ANNOTATION}
"""Field of a workload -> the rules that look at it."""


def _filters(request: HtmxRequest) -> Filters:
    def asked(name: str) -> str:
        return request.GET.get(name, "")[:253]

    phase, state, sort = asked("phase"), asked("state"), asked("sort")
    return Filters(
        q=request.GET.get("q", "").replace("\x00", "").strip()[:200],
        namespace=asked("namespace"),
        team=asked("team"),
        kind=asked("kind"),
        phase=phase if phase in set(Phase) else "",
        state=state if state in set(State) else "",
        findings=WITH_FINDINGS if asked("findings") == WITH_FINDINGS else "",
        sort=sort if sort in SORTS else "",
    )


def _is_wanted(found: Found, filters: Filters) -> bool:
    seen = found.seen
    if filters.namespace and seen.owner.namespace != filters.namespace:
        return False
    if filters.kind and seen.owner.kind != filters.kind:
        return False
    if filters.team and found.team != filters.team:
        return False
    if filters.findings and not found.findings:
        return False
    if filters.phase and seen.phase != filters.phase:
        return False
    if filters.state and not seen.states.get(State(filters.state)):
        return False
    return not filters.q or _mentions(found, filters.q.lower().split())


def _mentions(found: Found, words: list[str]) -> bool:
    owner = found.seen.owner
    text = " ".join(
        (owner.kind, f"{owner.namespace}/{owner.name}", found.team, found.seen.line.queue, *found.seen.nodes)
    ).lower()
    return all(word in text for word in words)


def _sorted(matching: list[Found], sort: str) -> list[Found]:
    by_name = sorted(matching, key=lambda found: (found.seen.owner.namespace, found.seen.owner.name))
    return sorted(by_name, key=SORTS[sort][1])


def _row(slug: str, found: Found) -> WorkloadRow:
    seen = found.seen
    owner, line = seen.owner, seen.line
    return WorkloadRow(
        url=workload_url(slug, owner.kind, owner.namespace, owner.name),
        kind=owner.kind,
        namespace=owner.namespace,
        name=owner.name,
        team=found.team,
        phase=seen.phase.value,
        counts=seen.pods,
        wanted=line.wanted,
        held=len(seen.cells),
        states=states_cell(seen.states),
        utilization=mean_cell(seen.utilization, len(seen.cells)),
        activity=mean_cell(seen.activity, len(seen.cells)),
        nodes=tuple((name, node_url(slug, name)) for name in seen.nodes[:NODES_SHOWN]),
        more_nodes=max(0, len(seen.nodes) - NODES_SHOWN),
        findings=found.findings,
        since=seen.pods.since,
    )
