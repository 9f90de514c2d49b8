"""What a GPU-hour costs: by model and time, never guessed. Pure."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import NamedTuple

from diagnostics.usage.weights import HOUR_MS

FOREVER_AGO = datetime(1, 1, 1, tzinfo=UTC)


class PriceLine(NamedTuple):
    """One line of the price table, as `models.Price` stores it."""

    pattern: str
    """Shell-style pattern of the model's name, in any case."""
    per_gpu_hour: Decimal
    currency: str = "USD"
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    """First moment at which it no longer holds."""
    is_for_cluster: bool = False
    """Meant for this cluster alone, not for all."""

    def holds(self, moment: datetime) -> bool:
        return (self.valid_from is None or self.valid_from <= moment) and (
            self.valid_to is None or moment < self.valid_to
        )


def price_of(model: str, hour: datetime, lines: Iterable[PriceLine]) -> PriceLine | None:
    """The line that prices `model` in the hour that begins at `hour`; None where the price is not known.

    Of several, the one meant for this cluster wins, then the one with the most literal pattern, then the youngest; a
    model without a name has no price but that of the pattern `*`.
    """
    name = model.casefold()
    matching = [line for line in lines if line.holds(hour) and fnmatchcase(name, line.pattern.casefold())]
    return max(matching, key=_rank, default=None)


def _rank(line: PriceLine) -> tuple[bool, int, datetime]:
    literal = sum(character not in "*?[]" for character in line.pattern)
    return line.is_for_cluster, literal, line.valid_from or FOREVER_AGO


def money(gpu_ms: int, line: PriceLine) -> Decimal:
    """GPU-milliseconds in the line's currency, unrounded."""
    return line.per_gpu_hour * gpu_ms / HOUR_MS


def boundaries(lines: Sequence[PriceLine], start: datetime, end: datetime) -> list[datetime]:
    """`start`, `end` and the full hours between from which on prices may differ; an hour has the price of its start."""
    found = {start, end}
    for line in lines:
        for moment in (line.valid_from, line.valid_to):
            if moment is not None and start < moment < end:
                found.add(ceiled(moment))
    return sorted(moment for moment in found if start <= moment <= end)


def floored(moment: datetime) -> datetime:
    """The full hour (UTC) at or before `moment`."""
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def ceiled(moment: datetime) -> datetime:
    """The full hour (UTC) at or after `moment`."""
    hour = floored(moment)
    return hour if hour == moment else datetime.fromtimestamp(hour.timestamp() + HOUR_MS // 1000, UTC)
