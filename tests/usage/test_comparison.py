"""Today so far against the same hours of the week before."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from diagnostics import usage
from diagnostics.models import Price
from diagnostics.snapshot import State
from diagnostics.usage import TodayAndWeek
from diagnostics.usage.rollups import forget
from tests.usage.hours import HOUR, LONG_AGO, MONDAY, Ledger

pytestmark = pytest.mark.django_db

DAYS = 9
NOON_OF_THE_LAST = MONDAY + (DAYS - 1) * 24 * HOUR + 12 * HOUR
BERLIN, KOLKATA = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kolkata")


@pytest.fixture
def ledger() -> Ledger:
    """Each hour of day d, one GPU works for d + 1 minutes, one idles for 10 and one is free; the last day to noon."""
    ledger = Ledger()
    for hour in range((DAYS - 1) * 24 + 12):
        ledger.later(hour, 0, 0, State.EFFECTIVE, 60_000 * (hour // 24 + 1), 0)
        ledger.later(hour, 1, 1, State.IDLE_HELD, 600_000, 600_000)
        ledger.later(hour, 2, 0, State.FREE, 3_600_000, 0)
    ledger.write()
    ledger.complete((DAYS - 1) * 24 + 11.4)
    usage.roll_up(ledger.cluster, LONG_AGO)
    return ledger


def looked(ledger: Ledger, now: datetime = NOON_OF_THE_LAST, zone: str = "UTC") -> TodayAndWeek:
    with CaptureQueriesContext(connection) as queries:
        found = usage.today_and_week(ledger.cluster, now, ZoneInfo(zone))
    assert len(queries) <= 3
    return found


def test_final_hours_of_today_stand_against_the_mean_of_the_same_hours(ledger: Ledger) -> None:
    found = looked(ledger)
    assert (found.start, found.end) == (MONDAY + 192 * HOUR, MONDAY + 203 * HOUR)
    assert found.today is not None
    assert found.week is not None
    assert found.today.effective_ms == 11 * 9 * 60_000
    assert found.week.effective_ms == 11 * 5 * 60_000, "days 2 to 8"
    assert found.days == 7
    assert found.today.wasted_ms == found.week.wasted_ms == 11 * 600_000
    assert found.today.held_ms == 11 * (9 * 60_000 + 600_000)
    assert found.today.unpriced_ms == found.today.held_ms
    assert found.today.costs == {}


def test_money_goes_by_the_price_of_each_hour(ledger: Ledger) -> None:
    Price.objects.create(pattern="*H100*", per_gpu_hour=6, valid_to=MONDAY + 200 * HOUR)
    Price.objects.create(pattern="*H100*", per_gpu_hour=12, valid_from=MONDAY + 200 * HOUR)
    found = looked(ledger)
    assert found.today is not None
    assert found.week is not None
    assert found.today.wasted == found.today.costs == {"USD": Decimal(8 * 1 + 3 * 2)}
    assert {c: round(amount, 9) for c, amount in found.week.wasted.items()} == {"USD": Decimal(11)}
    assert found.today.unpriced_ms == 11 * 9 * 60_000


@pytest.mark.parametrize(("zone", "hour"), [("Europe/Berlin", 22), ("Asia/Kolkata", 18), ("UTC", 0)])
def test_the_day_begins_at_midnight_of_the_site(ledger: Ledger, zone: str, hour: int) -> None:
    """Kolkata's is half an hour later than a full hour of UTC."""
    found = looked(ledger, zone=zone)
    assert found.start.hour == hour
    assert found.end == MONDAY + 203 * HOUR
    assert found.today is not None
    assert found.today.wasted_ms == (found.end - found.start) // HOUR * 600_000


def test_hours_that_are_not_rolled_up_yet_count(ledger: Ledger) -> None:
    before = looked(ledger)
    forget(ledger.cluster, [MONDAY + hour * HOUR for hour in (196, 202, 150)])
    assert looked(ledger) == before


def test_days_of_which_too_much_is_not_rolled_up_are_left_out(ledger: Ledger) -> None:
    forget(ledger.cluster, [MONDAY + hour * HOUR for hour in range(96, 120)])
    forget(ledger.cluster, [MONDAY + 202 * HOUR, MONDAY + 26 * HOUR])
    found = looked(ledger)
    assert found.days == 5
    assert found.end == MONDAY + 203 * HOUR


def test_before_anything_is_final_there_is_nothing(ledger: Ledger) -> None:
    empty = looked(Ledger())
    assert (empty.today, empty.week, empty.days) == (None, None, 0)
    early = looked(ledger, MONDAY + 192 * HOUR + timedelta(minutes=59))
    assert (early.today, early.week) == (None, None)
    assert early.start == early.end == MONDAY + 192 * HOUR


def test_a_ledger_that_begins_today_has_no_week(ledger: Ledger) -> None:
    young = Ledger()
    young.add(195, 0, 0, State.EFFECTIVE, 5, 0)
    young.complete(200.5)
    found = looked(young)
    assert (found.start, found.end) == (MONDAY + 195 * HOUR, MONDAY + 200 * HOUR)
    assert found.today is not None
    assert found.today.effective_ms == 5
    assert (found.week, found.days) == (None, 0)


def test_days_that_nobody_observed_do_not_pull_the_mean_down(ledger: Ledger) -> None:
    ledger.cluster.usagehour_set.filter(hour__gte=MONDAY + 24 * HOUR, hour__lt=MONDAY + 48 * HOUR).delete()
    for hour in range(24, 48):
        ledger.add(hour, 0, 0, State.NO_DATA, 3_600_000, 0, is_gap=True)
    forget(ledger.cluster, [MONDAY + hour * HOUR for hour in range(24, 48)])
    usage.roll_up(ledger.cluster, LONG_AGO)
    found = looked(ledger)
    assert found.days == 6
    assert found.week is not None
    assert found.week.wasted_ms == 11 * 600_000


def test_the_clock_may_be_behind_the_ledger(ledger: Ledger) -> None:
    found = looked(ledger, datetime(2026, 6, 3, 5, 30, tzinfo=UTC))
    assert (found.start, found.end) == (MONDAY + 48 * HOUR, MONDAY + 53 * HOUR)
    assert found.days == 2
