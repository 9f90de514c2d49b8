"""Times as the API writes them: RFC 3339 in UTC, in whole seconds or in microseconds."""

from datetime import UTC, datetime, timedelta

from diagnostics.simulator.identity import number_of

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro(moment: datetime, *key: object) -> str:
    """With microseconds that follow from the key, as in `eventTime`."""
    return (
        moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{number_of(1_000_000, 'micro', *key):06d}Z"
    )


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)
