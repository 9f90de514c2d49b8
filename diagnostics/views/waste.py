"""Where the GPU-hours and the money of a period went, who wastes most, and what the figures rest on."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from urllib.parse import urlencode

from django.http import HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.text import slugify
from django.views.decorators.http import require_safe

from diagnostics import usage
from diagnostics.models import Cluster
from diagnostics.snapshot import State
from diagnostics.usage import Asked, Group, Grouping, Ledger, Saving, Within
from diagnostics.usage.groups import Name
from diagnostics.usage.spreadsheet import as_csv
from diagnostics.usage.weights import HOUR_MS
from diagnostics.views.asked import choice, text
from diagnostics.views.bars import ORDER, Segment, bar
from diagnostics.views.page import HtmxRequest, Page, frame_of, render_page, workload_url
from diagnostics.views.pages_of import Pages
from diagnostics.views.periods import NAMED, Period, period_of
from diagnostics.views.waste_findings import About, Findings

GROUPS_PER_PAGE = 100
SAVINGS_SHOWN = 8


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A link to the same page with one thing changed."""

    label: str
    url: str
    is_current: bool = False


@dataclass(frozen=True, kw_only=True)
class Amount:
    """Money, as far as it is known."""

    sums: tuple[tuple[str, Decimal], ...]
    """(currency, amount); empty where no price is known."""
    is_part: bool
    """Some of the hours have no price."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A group of the table, or all of them."""

    name: Name
    url: str
    """Of what it is made of; empty where it is not divided further."""
    hours: float
    wasted_hours: float
    ratio: float | None
    """Of its hours, how many are wasted; None where it has none."""
    bar: tuple[Segment, ...]
    cost: Amount
    wasted: Amount


@dataclass(frozen=True, kw_only=True)
class SavingRow:
    """A workload that wastes much."""

    name: Name
    url: str
    wasted_hours: float
    wasted: Amount
    kinds: tuple[tuple[State, float], ...]
    """Kind of waste -> GPU-hours, most first."""
    about: About


@dataclass(frozen=True, kw_only=True)
class WastePage(Page):
    period: Period
    periods: tuple[Choice, ...]
    by: str
    groupings: tuple[Choice, ...]
    filters: tuple[tuple[str, str, str], ...]
    """(what, value, address without it) of what the table is restricted to."""
    hidden: tuple[tuple[str, str], ...]
    """What the form for own days has to hand on."""
    rows: tuple[Row, ...]
    pages: Pages
    held: Row
    """All that workloads held."""
    nobody: tuple[tuple[State, float], ...]
    """GPU-hours that nobody held."""
    stranded_hours: float
    savings: tuple[SavingRow, ...]
    start: datetime
    end: datetime
    """Full hours of UTC, to which the period is widened."""
    is_widened: bool
    begins: datetime | None
    complete_through: datetime | None
    is_complete: bool
    whole_from: datetime | None
    """What is before it is still being back-filled; None where nothing is."""
    total_hours: float
    unobserved_hours: float
    backfilled_hours: float
    states: tuple[State, ...]
    """For the legend."""
    unpriced_models: tuple[str, ...]
    unpriced_hours: float
    csv_url: str
    address: str


@require_safe
def waste(request: HtmxRequest, slug: str) -> HttpResponse:
    cluster, frame, now = frame_of(slug, "waste")
    period = period_of(request.GET.dict(), now, timezone.get_default_timezone())
    asked = _asked(request)
    if request.GET.get("format") == "csv":
        return _csv(cluster, period, asked)
    number = _page_number(request)
    found = Findings(cluster, period.start)
    summary = usage.summary(
        cluster,
        period.start,
        period.end,
        asked,
        skip=(number - 1) * GROUPS_PER_PAGE,
        most=GROUPS_PER_PAGE,
        top=SAVINGS_SHOWN,
        names_of=found.names,
    )
    ledger = summary.ledger
    address = _Addresses(slug, period, asked)
    through = ledger.complete_through
    page = WastePage(
        frame=frame,
        now=now,
        period=period,
        periods=address.periods(),
        by=asked.by.value,
        groupings=address.groupings(),
        filters=address.filters(),
        hidden=tuple((key, value) for key, value in address.kept.items() if key not in period.query),
        rows=tuple(_row(group, address.of_group(group.name)) for group in ledger.groups),
        pages=_pages(number, ledger),
        held=_row(ledger.held, ""),
        nobody=_of_nobody(ledger, asked.within),
        stranded_hours=_hours(ledger, State.STRANDED),
        savings=tuple(_saving(slug, saving, found.about(saving)) for saving in summary.savings),
        start=ledger.start,
        end=ledger.end,
        is_widened=ledger.start != period.start,
        begins=ledger.begins,
        complete_through=through,
        is_complete=through is not None and through >= period.end,
        whole_from=ledger.whole_from,
        total_hours=ledger.total_ms / HOUR_MS,
        unobserved_hours=ledger.unobserved_ms / HOUR_MS,
        backfilled_hours=ledger.backfilled_ms / HOUR_MS,
        states=tuple(state for state in ORDER if state and state in ledger.whole.states),
        unpriced_models=ledger.unpriced_models,
        unpriced_hours=ledger.whole.unpriced_ms / HOUR_MS,
        csv_url=address.url(format="csv"),
        address=request.get_full_path(),
    )
    return render_page(request, "pages/waste.html", page, partial="live")


def _asked(request: HtmxRequest) -> Asked:
    by = Grouping(choice(request.GET, "by", set(Grouping), Grouping.TEAM))
    team, namespace = (text(request.GET, name) or None for name in ("team", "namespace"))
    return Asked(by, Within(team, namespace), is_held=True)


def _page_number(request: HtmxRequest) -> int:
    said = text(request.GET, "page")
    return max(1, int(said)) if said.isascii() and said.isdigit() and len(said) < 8 else 1


class _Addresses:
    """Addresses of this page with something changed."""

    def __init__(self, slug: str, period: Period, asked: Asked) -> None:
        self.slug, self.asked = slug, asked
        self.base = reverse("waste", args=[slug])
        within = {"team": asked.within.team, "namespace": asked.within.namespace}
        self.within = {key: value for key, value in within.items() if value is not None}
        self.kept: dict[str, str] = {**period.query, "by": asked.by.value, **self.within}
        self.period = period

    def url(self, without: str = "", **changes: str) -> str:
        query = {key: value for key, value in (self.kept | changes).items() if key != without}
        return f"{self.base}?{urlencode(query)}"

    def periods(self) -> tuple[Choice, ...]:
        rest = {"by": self.asked.by.value, **self.within}
        return tuple(
            Choice(
                label=label,
                url=f"{self.base}?{urlencode({'period': name, **rest})}",
                is_current=name == self.period.name,
            )
            for name, label in NAMED
        )

    def groupings(self) -> tuple[Choice, ...]:
        return tuple(
            Choice(label=by.value.capitalize(), url=self.url(by=by.value), is_current=by is self.asked.by)
            for by in Grouping
        )

    def filters(self) -> tuple[tuple[str, str, str], ...]:
        return tuple((key, value, self.url(without=key)) for key, value in self.within.items())

    def of_group(self, name: Name) -> str:
        """Where a group is divided further."""
        match self.asked.by:
            case Grouping.TEAM if name is not None:
                return self.url(by=Grouping.WORKLOAD.value, team=name[0])
            case Grouping.NAMESPACE if name is not None:
                return self.url(by=Grouping.WORKLOAD.value, namespace=name[0])
            case Grouping.WORKLOAD if name is not None:
                return workload_url(self.slug, *name)
        return ""


def _row(group: Group, url: str) -> Row:
    return Row(
        name=group.name,
        url=url,
        hours=group.gpu_ms / HOUR_MS,
        wasted_hours=group.waste_ms / HOUR_MS,
        ratio=group.waste_ms / group.gpu_ms if group.gpu_ms else None,
        bar=bar({state: spent.gpu_ms / HOUR_MS for state, spent in group.states.items()}),
        cost=_amount(group.costs, group.unpriced_ms),
        wasted=_amount(group.wasted, group.unpriced_waste_ms),
    )


def _amount(costs: Mapping[str, Decimal], unpriced_ms: int) -> Amount:
    return Amount(sums=tuple(sorted(costs.items())), is_part=bool(unpriced_ms))


def _hours(ledger: Ledger, state: State) -> float:
    spent = ledger.whole.states.get(state)
    return spent.gpu_ms / HOUR_MS if spent else 0.0


def _of_nobody(ledger: Ledger, within: Within) -> tuple[tuple[State, float], ...]:
    if within.is_any:
        return ()
    found = ((state, _hours(ledger, state)) for state in (State.FREE, State.STRANDED, State.UNAVAILABLE))
    return tuple((state, hours) for state, hours in found if hours)


def _saving(slug: str, saving: Saving, about: About) -> SavingRow:
    return SavingRow(
        name=saving.name,
        url=workload_url(slug, *saving.name) if saving.name else "",
        wasted_hours=saving.waste_ms / HOUR_MS,
        wasted=_amount(saving.wasted, saving.unpriced_ms),
        kinds=tuple((state, ms / HOUR_MS) for state, ms in saving.states.items()),
        about=about,
    )


def _pages(number: int, ledger: Ledger) -> Pages:
    count = max(1, -(-ledger.group_count // GROUPS_PER_PAGE))
    first = (number - 1) * GROUPS_PER_PAGE + 1
    return Pages(
        number=number,
        count=count,
        previous=number - 1 if number > 1 else None,
        next=number + 1 if number < count else None,
        first=first,
        last=first + len(ledger.groups) - 1,
        total=ledger.group_count,
    )


def _csv(cluster: Cluster, period: Period, asked: Asked) -> HttpResponse:
    """All groups of the table, of all pages, and what nobody held."""
    ledger = usage.sums(cluster, period.start, period.end, asked.by, within=asked.within)
    name = f"{slugify(cluster.slug)}-usage-by-{asked.by}-{period.first}-{period.last}.csv"
    response = HttpResponse(as_csv(asked.by, ledger), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["Cache-Control"] = "private, no-store"
    return response
