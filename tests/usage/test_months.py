"""Months of roll-ups: read instead of their days, and made anew with them."""

import pytest

from diagnostics import usage
from diagnostics.models import (
    Price,
    TeamRule,
    UsageRollup,
    Workload,
)
from diagnostics.snapshot import State
from diagnostics.usage import Grouping
from diagnostics.usage.rollups import forget
from diagnostics.usage.teams import By
from tests.usage.adding_up import assert_exact
from tests.usage.hours import DAY, HOUR, MONDAY, Ledger

pytestmark = pytest.mark.django_db


@pytest.fixture
def june() -> Ledger:
    """A month and a day, with a line in each hour of some of its days."""
    ledger = Ledger()
    for day in (0, 1, 13, 29, 30):
        for hour in range(24 * day, 24 * day + 24):
            ledger.later(hour, day % 3, 0, State.EFFECTIVE, 1000 + hour, 0)
            ledger.later(hour, 3, 1, State.INEFFECTIVE, 500 + hour, hour)
    ledger.write()
    ledger.complete(31 * 24)
    assert ledger.roll_up() == 31 * 24 + 31 + 1
    return ledger


def test_a_month_is_read_instead_of_its_days(june: Ledger) -> None:
    before = usage.sums(june.cluster, MONDAY, MONDAY + 31 * DAY, Grouping.WORKLOAD)
    month = UsageRollup.objects.get(cluster=june.cluster, hour=UsageRollup.WHOLE_MONTH)
    june.cluster.usage_rollups.filter(day__month=6).exclude(pk=month.pk).delete()
    june.cluster.usagehour_set.filter(hour__gte=MONDAY + HOUR, hour__lt=MONDAY + 30 * DAY).delete()
    assert usage.sums(june.cluster, MONDAY, MONDAY + 31 * DAY, Grouping.WORKLOAD) == before
    month.delete()
    assert usage.sums(june.cluster, MONDAY, MONDAY + 31 * DAY, Grouping.WORKLOAD) != before


def test_a_month_stands_for_nothing_but_itself(june: Ledger) -> None:
    """Not for a part of it, not where a price changes in it, not when one of its hours was written to."""
    assert_exact(june, MONDAY, MONDAY + 31 * DAY)
    assert_exact(june, MONDAY + HOUR, MONDAY + 31 * DAY)
    assert_exact(june, MONDAY, MONDAY + 30 * DAY - HOUR)
    Price.objects.create(pattern="*", per_gpu_hour=2, valid_from=MONDAY + 13 * DAY)
    assert_exact(june, MONDAY, MONDAY + 31 * DAY)
    june.add(14 * 24 - 1, 4, 0, State.HUNG, 77, 77)
    forget(june.cluster, [MONDAY + 14 * DAY - HOUR])
    assert_exact(june, MONDAY, MONDAY + 30 * DAY)
    assert june.roll_up() == 3, "the hour, its day and its month"
    assert_exact(june, MONDAY, MONDAY + 30 * DAY)


def test_a_workload_that_changes_its_label_takes_its_months_along(june: Ledger) -> None:
    TeamRule.objects.create(by=By.LABEL, key="team")
    june.roll_up()
    Workload.objects.filter(name="job-3").update(labels={"team": "other"}, last_seen=MONDAY + 31 * DAY)
    june.roll_up()
    assert_exact(june, MONDAY, MONDAY + 31 * DAY)
    june.cluster.usagehour_set.filter(hour__gte=MONDAY + HOUR, hour__lt=MONDAY + 30 * DAY).delete()
    found = usage.sums(june.cluster, MONDAY, MONDAY + 30 * DAY, Grouping.TEAM)
    assert ("other",) in {group.name for group in found.groups}
