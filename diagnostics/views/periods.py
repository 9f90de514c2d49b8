"""Spans of whole days in the site's time zone, as addresses name them: `?period=month`, or `?from=…&to=…`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import NamedTuple

DAY = timedelta(days=1)
LONGEST = timedelta(days=400)
"""Of days that somebody enters: thirteen months, as long as the ledger is kept by default."""
FIRST = date(2000, 1, 1)


class Named(NamedTuple):
    name: str
    """In the address."""
    label: str


NAMED = (
    Named("today", "Today"),
    Named("7d", "7 days"),
    Named("30d", "30 days"),
    Named("month", "Month so far"),
    Named("last-month", "Last month"),
)
DEFAULT = "7d"


@dataclass(frozen=True, kw_only=True)
class Period:
    """Whole days, but for the last one where it is not over."""

    name: str
    """Of NAMED; empty for own days."""
    first: date
    last: date
    """The last day that belongs to it."""
    start: datetime
    end: datetime = field(repr=False)
    """The end of the last day, or now."""
    is_running: bool
    """Its last day is not over."""
    trouble: str = ""
    """Why another period than the one that was asked for is shown."""

    @property
    def query(self) -> dict[str, str]:
        """What stands for it in an address."""
        if self.name:
            return {"period": self.name}
        return {"from": self.first.isoformat(), "to": self.last.isoformat()}


def period_of(asked: Mapping[str, str], now: datetime, tz: tzinfo) -> Period:
    """The period that an address asks for; the default one, with the trouble, where it asks for none that there is."""
    today = now.astimezone(tz).date()
    start, end = asked.get("from", ""), asked.get("to", "")
    if not start and not end:
        name = asked.get("period", DEFAULT)
        known = {one.name for one in NAMED}
        return _named(name if name in known else DEFAULT, today, now, tz)
    try:
        first = date.fromisoformat(start) if start else date.fromisoformat(end) - 6 * DAY
        last = date.fromisoformat(end) if end else today
    except (ValueError, OverflowError):
        return _named(DEFAULT, today, now, tz, "A day is written like 2026-06-01.")
    trouble = ""
    if first > last:
        trouble = "The first day comes after the last."
    elif not FIRST <= first <= today:
        trouble = "The first day lies in the future." if first > today else "That is too long ago."
    elif min(last, today) - first >= LONGEST:
        trouble = f"That is more than {LONGEST.days} days."
    if trouble:
        return _named(DEFAULT, today, now, tz, trouble)
    return _days("", first, min(last, today), now, tz)


def midnight(day: date, tz: tzinfo) -> datetime:
    """The moment at which a day begins, in UTC."""
    return datetime.combine(day, time(), tzinfo=tz).astimezone(UTC)


def _named(name: str, today: date, now: datetime, tz: tzinfo, trouble: str = "") -> Period:
    this_month = today.replace(day=1)
    first, last = {
        "today": (today, today),
        "7d": (today - 6 * DAY, today),
        "30d": (today - 29 * DAY, today),
        "month": (this_month, today),
        "last-month": ((this_month - DAY).replace(day=1), this_month - DAY),
    }[name]
    return _days(name, first, last, now, tz, trouble)


def _days(name: str, first: date, last: date, now: datetime, tz: tzinfo, trouble: str = "") -> Period:
    end = midnight(last + DAY, tz)
    return Period(
        name=name,
        first=first,
        last=last,
        start=midnight(first, tz),
        end=min(end, now),
        is_running=end > now,
        trouble=trouble,
    )
