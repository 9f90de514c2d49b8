"""How far back-filling is: spans that nobody observed, and what of them has been rebuilt from Prometheus."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from diagnostics.models import Backfill, Cluster

MOST_SPANS = 500
"""Read of one cluster; a site with more gaps than that has other troubles."""
SHOWN = 12
_WORDS = {
    Backfill.Status.WAITING: "waits for its turn, or for its end to be judged",
    Backfill.Status.RUNNING: "is being filled, the newest part first",
    Backfill.Status.DONE: "filled",
    Backfill.Status.IMPOSSIBLE: "cannot be filled: Prometheus holds nothing of that time",
    Backfill.Status.FAILED: "given up",
}


@dataclass(frozen=True, kw_only=True)
class SpanRow:
    """One span that is not filled yet, or will never be."""

    start: datetime
    end: datetime
    length: timedelta
    done: float
    """Share of it that is filled, 0 to 1."""
    done_from: datetime
    status: str
    words: str
    detail: str


@dataclass(frozen=True, kw_only=True)
class Progress:
    """All spans of a cluster together; the lengths of those that cannot be filled are not among them."""

    rows: tuple[SpanRow, ...]
    more: int
    """Rows beyond those."""
    filled: timedelta
    wanted: timedelta
    is_running: bool

    @property
    def share(self) -> float:
        """Of what can be filled, 0 to 1."""
        return self.filled / self.wanted if self.wanted else 1.0

    @property
    def per_mille(self) -> int:
        """The share for a progress bar; full only when all is filled."""
        return int(1000 * self.share)

    @property
    def left(self) -> timedelta:
        return self.wanted - self.filled


def progress_of(cluster: Cluster) -> Progress | None:
    """None where nothing ever had to be filled. One query."""
    spans = list(cluster.backfills.all()[:MOST_SPANS])
    if not spans:
        return None
    possible = [span for span in spans if span.status != Backfill.Status.IMPOSSIBLE]
    open_rows = [_row(span) for span in spans if span.status != Backfill.Status.DONE]
    return Progress(
        rows=tuple(open_rows[:SHOWN]),
        more=max(0, len(open_rows) - SHOWN),
        filled=_sum(span.end - span.done_from for span in possible),
        wanted=_sum(span.end - span.start for span in possible),
        is_running=any(span.status == Backfill.Status.RUNNING for span in spans),
    )


def _row(span: Backfill) -> SpanRow:
    length = span.end - span.start
    return SpanRow(
        start=span.start,
        end=span.end,
        length=length,
        done=(span.end - span.done_from) / length if length else 1.0,
        done_from=span.done_from,
        status=span.status,
        words=_WORDS.get(Backfill.Status(span.status), ""),
        detail=span.detail,
    )


def _sum(lengths: Iterable[timedelta]) -> timedelta:
    return sum(lengths, timedelta())
