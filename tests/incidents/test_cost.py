"""What an incident has cost, and what that rests on."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from diagnostics.incidents.cost import Basis, Cost, cost_of, open_spans
from diagnostics.models import STATE_NUMBERS, Device, GpuModel, Incident, Node, Price, UsageHour, Workload
from diagnostics.snapshot import State
from diagnostics.usage.weights import HOUR_MS
from tests.builders import NOW
from tests.incidents.timeline import POLL, Timeline, finding

pytestmark = pytest.mark.django_db

OPENED = NOW + 2 * POLL
"""When `Timeline.open` opens an incident; NOW is a full hour."""


@pytest.fixture
def timeline() -> Timeline:
    timeline = Timeline()
    timeline.open()
    return timeline


def cost(timeline: Timeline, through: datetime | None = None, nodes: tuple[str, ...] = ()) -> Cost:
    incident = timeline.incident()
    return cost_of(timeline.cluster, incident, spans_of(incident), nodes, through)


def spans_of(incident: Incident) -> list[tuple[datetime, datetime]]:
    end = incident.resolved_at or incident.last_seen
    return open_spans(incident.opened_at, incident.events.order_by("pk"), end)


def wasted(timeline: Timeline, hour: datetime, gpu_hours: float, **fields: Any) -> None:
    """A line of the ledger of the Job `research/train`."""
    times = {"first_seen": NOW, "last_seen": NOW}
    workload, _ = Workload.objects.get_or_create(
        cluster=timeline.cluster, kind="Job", namespace="research", name="train", defaults=times
    )
    model, _ = GpuModel.objects.get_or_create(name=fields.pop("model", "H100"))
    UsageHour.objects.create(
        cluster=timeline.cluster,
        hour=hour,
        workload=workload,
        model=model,
        state=STATE_NUMBERS[State.IDLE_HELD],
        waste_ms=round(gpu_hours * HOUR_MS),
        **{"gpu_ms": HOUR_MS * 4} | fields,
    )


def test_adds_up_what_the_ledger_says_of_a_workload_since_the_hour_it_opened_in(timeline: Timeline) -> None:
    for hours, amount in ((-1, 8.0), (0, 1.5), (1, 2.0)):
        wasted(timeline, NOW + timedelta(hours=hours), amount)
    through = NOW + timedelta(hours=1, minutes=30)

    assert cost(timeline, through) == Cost(
        basis=Basis.LEDGER, since=NOW, through=through, gpu_hours=3.5, unpriced_gpu_hours=3.5
    )


def test_prices_each_hour_as_it_was_and_says_what_has_no_price(timeline: Timeline) -> None:
    change = NOW + timedelta(hours=1)
    Price.objects.create(pattern="h100*", per_gpu_hour=Decimal(2), valid_to=change)
    Price.objects.create(pattern="h100*", per_gpu_hour=Decimal(3), currency="EUR", valid_from=change)
    for hours, model in ((0, "H100"), (1, "H100"), (1, "T4")):
        wasted(timeline, NOW + timedelta(hours=hours), 2.0, model=model)

    found = cost(timeline, NOW + timedelta(hours=2))

    assert found.money == (("EUR", Decimal(6)), ("USD", Decimal(4)))
    assert (found.gpu_hours, found.unpriced_gpu_hours) == (6.0, 2.0)


def test_unobserved_time_is_said_and_not_counted(timeline: Timeline) -> None:
    wasted(timeline, NOW, 1.0)
    wasted(timeline, NOW, 0.0, is_gap=True)

    found = cost(timeline, NOW + timedelta(hours=1))

    assert (found.gpu_hours, found.unobserved_gpu_hours) == (1.0, 4.0)


def test_the_ledger_counts_no_further_than_the_end(timeline: Timeline) -> None:
    timeline.poll()
    timeline.poll()
    for hours in (0, 1):
        wasted(timeline, NOW + timedelta(hours=hours), 1.0)

    assert cost(timeline, NOW + timedelta(hours=2)).gpu_hours == 1.0


@pytest.mark.parametrize("through", [None, NOW, OPENED], ids=["no ledger", "before", "not yet"])
def test_estimates_where_the_ledger_has_not_come_so_far(timeline: Timeline, through: datetime | None) -> None:
    wasted(timeline, NOW, 9.0)
    timeline.poll([finding(waste_gpus=4.0)], after=timedelta(minutes=30))

    assert cost(timeline, through) == Cost(
        basis=Basis.ESTIMATE,
        since=OPENED,
        through=OPENED + timedelta(minutes=30),
        gpu_hours=2.0,
        unpriced_gpu_hours=2.0,
    )


def test_estimates_where_the_ledger_does_not_know_the_workload(timeline: Timeline) -> None:
    assert cost(timeline, NOW + timedelta(days=1)).basis is Basis.ESTIMATE


def test_an_estimate_leaves_out_the_time_between_two_occurrences(timeline: Timeline) -> None:
    """Open for 2 min, gone for an hour, open again for 1 min; it counts as open until it is resolved."""
    timeline.poll()
    timeline.poll()
    timeline.poll([finding()], after=timedelta(hours=1))
    timeline.poll([finding()])
    timeline.poll([finding()])

    assert cost(timeline).gpu_hours == pytest.approx(2 * 3 / 60)


def test_what_is_not_known_is_not_zero(timeline: Timeline) -> None:
    timeline.poll([finding(waste_gpus=None)])

    found = cost(timeline)
    assert (found.basis, found.gpu_hours, found.money) == (Basis.UNKNOWN, None, ())


@pytest.mark.parametrize(
    ("models", "money"),
    [(["H100", "H100"], (("USD", Decimal(4)),)), (["H100", "T4"], ()), ([], ())],
    ids=["one price", "two prices", "no devices"],
)
def test_an_estimate_has_a_price_only_where_there_is_one(
    timeline: Timeline, models: list[str], money: tuple[Any, ...]
) -> None:
    Price.objects.create(pattern="H100", per_gpu_hour=Decimal(4))
    Price.objects.create(pattern="T4", per_gpu_hour=Decimal(1))
    times = {"first_seen": NOW, "last_seen": NOW}
    node = Node.objects.create(cluster=timeline.cluster, name="gpu-1", **times)
    for number, model in enumerate(models):
        Device.objects.create(
            cluster=timeline.cluster, node=node, slot=f"gpu-1/{number}", model=model, resource="r", **times
        )
    timeline.poll([finding(waste_gpus=1.0)], after=timedelta(hours=1))

    assert cost(timeline, nodes=("gpu-1",)).money == money


@pytest.mark.parametrize("known", [True, False])
def test_takes_at_most_two_queries(
    timeline: Timeline, django_assert_max_num_queries: Any, known: bool
) -> None:
    Price.objects.create(pattern="*", per_gpu_hour=Decimal(4))
    if known:
        wasted(timeline, NOW, 1.0)
    incident = timeline.incident()
    spans = spans_of(incident)

    with django_assert_max_num_queries(2):
        cost_of(timeline.cluster, incident, spans, ("gpu-1",), NOW + timedelta(hours=1))
