"""Moments as whole milliseconds since 1970, and back. Pure."""

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


def to_ms(moment: datetime) -> int:
    """Rounded down; exact, unlike a float's timestamp."""
    return (moment - EPOCH) // MILLISECOND


def span_ms(span: timedelta) -> int:
    """Rounded down."""
    return span // MILLISECOND


def from_ms(at: int) -> datetime:
    """In UTC."""
    return EPOCH + at * MILLISECOND
