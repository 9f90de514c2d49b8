"""The steps at which a span of the past is looked at. Pure."""

from datetime import UTC, datetime

import msgspec


class Grid(msgspec.Struct, frozen=True):
    """The steps of a span: seconds since 1970 of the first, seconds between two, and how many."""

    start_s: int
    step_s: int
    count: int

    def place(self, seconds: float) -> int | None:
        """Number of the step at this time; None outside of the span."""
        place = round((seconds - self.start_s) / self.step_s)
        return place if 0 <= place < self.count else None

    def at(self, place: int) -> datetime:
        return datetime.fromtimestamp(self.start_s + place * self.step_s, UTC)
