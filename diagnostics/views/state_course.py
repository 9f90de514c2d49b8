"""The states of one device over the last days, as a bar that is drawn on the server."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta

from django.utils import timezone as zones

from diagnostics.models import STATES, Device, LedgerState, StateInterval
from diagnostics.snapshot import State
from diagnostics.usage.intervals import Interval
from diagnostics.usage.ledger import opened
from diagnostics.usage.moments import from_ms, to_ms

OVER = timedelta(days=7)
MOST_STAYS = 2_000
STAYS_SHOWN = 40
"""In words; the bar has all of them."""
LETTER_FROM = 2.5
"""Per cent of the bar's width that a letter needs."""


@dataclass(frozen=True, kw_only=True)
class Stay:
    """One state with one set of holders; low activity is a part of working time and not told apart here."""

    state: State
    is_gap: bool
    """Nobody looked."""
    start: datetime
    end: datetime
    holders: tuple[str, ...]
    x: str
    """Per cent of the bar, as SVG reads them."""
    width: str
    has_letter: bool
    middle: str

    @property
    def lasted(self) -> timedelta:
        return self.end - self.start


@dataclass(frozen=True, kw_only=True)
class Course:
    """What the ledger knows of a device over a span."""

    start: datetime
    end: datetime
    complete_through: datetime | None
    """Everything before is final; None where the ledger has not begun."""
    stays: tuple[Stay, ...]
    """Oldest first."""
    sums: tuple[tuple[State, timedelta], ...]
    """Most first; unobserved time counts for none."""
    unobserved: timedelta
    is_cut: bool
    """There were more stays: the oldest are missing."""
    days: tuple[tuple[str, datetime], ...]
    """(per cent, midnight)."""
    open_since: datetime | None
    """Beginning of the stay that goes on; None where it is not known."""
    open_state: State | None

    @property
    def newest(self) -> tuple[Stay, ...]:
        """Newest first, as many as are told in words."""
        return self.stays[: -STAYS_SHOWN - 1 : -1]


def course_of(
    device: Device | None, ledger: LedgerState | None, now: datetime, names: Mapping[int, str]
) -> Course:
    """Of the last days, up to the end of the hour that runs. `names`: primary key of a workload -> what it is called.

    Time that is not final yet, and time before the device was first seen, is left blank. One query.
    """
    # By the hour, so that time alone is no change.
    end = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    start = end - OVER
    rows: list[StateInterval] = []
    if device is not None:
        found = StateInterval.objects.filter(device=device, end_ms__gt=to_ms(start)).order_by("-start_ms")
        rows = list(found[: MOST_STAYS + 1])
    is_cut = len(rows) > MOST_STAYS
    through = ledger.complete_through if ledger is not None else None
    current = _open(device, ledger)
    stays = [
        _stay(STATES[row.state], row.is_gap, row.start_ms, row.end_ms, row.holders, start, end, names)
        for row in reversed(rows[:MOST_STAYS])
    ]
    if current is not None and current.end > current.start:
        stays.append(
            _stay(
                current.state, current.is_gap, current.start, current.end, current.holders, start, end, names
            )
        )
    stays = [stay for stay in stays if stay.start < stay.end]
    sums: dict[State, timedelta] = defaultdict(timedelta)
    for stay in stays:
        if not stay.is_gap:
            sums[stay.state] += stay.lasted
    return Course(
        start=start,
        end=end,
        complete_through=through,
        stays=tuple(stays),
        sums=tuple(sorted(sums.items(), key=lambda item: -item[1])),
        unobserved=sum((stay.lasted for stay in stays if stay.is_gap), timedelta()),
        is_cut=is_cut,
        days=_midnights(start, end),
        open_since=from_ms(current.start) if current is not None else None,
        open_state=current.state if current is not None and not current.is_gap else None,
    )


def _open(device: Device | None, ledger: LedgerState | None) -> Interval | None:
    """The stay that no row holds yet, because it goes on."""
    if device is None or ledger is None or ledger.complete_through is None or not ledger.data:
        return None
    entry = opened(ledger, to_ms(ledger.complete_through)).entries.get(device.pk)
    return entry.open if entry is not None else None


def _stay(
    state: State,
    is_gap: bool,
    start_ms: int,
    end_ms: int,
    holders: Iterable[int],
    first: datetime,
    last: datetime,
    names: Mapping[int, str],
) -> Stay:
    start, end = max(first, from_ms(start_ms)), min(last, from_ms(end_ms))
    x, width = (100 * (start - first) / (last - first), 100 * (end - start) / (last - first))
    return Stay(
        state=state,
        is_gap=is_gap,
        start=start,
        end=end,
        holders=tuple(names[pk] for pk in holders if pk in names),
        x=f"{x:.3f}%",
        width=f"{max(width, 0.05):.3f}%",
        has_letter=width >= LETTER_FROM,
        middle=f"{x + width / 2:.3f}%",
    )


def _midnights(start: datetime, end: datetime) -> tuple[tuple[str, datetime], ...]:
    """Of the site's zone, whose days need not have 24 hours."""
    found = []
    date = zones.localtime(start).date() + timedelta(days=1)
    while (day := zones.make_aware(datetime.combine(date, time()))) < end:
        found.append((f"{100 * (day - start) / (end - start):.3f}%", day))
        date += timedelta(days=1)
    return tuple(found)
