"""How long each kind of record is kept. A site sets it under `[retention]` or by GPUHEALTH_RETENTION_*."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from diagnostics.limits import duration

THIRTEEN_MONTHS = timedelta(days=396)
"""A year and the month that it is compared with."""
LEAST, MOST = timedelta(hours=3), timedelta(days=3660)


class RetentionError(ValueError):
    """What a site wrote cannot be kept to; the message says why."""


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """One span per kind."""

    polls: Annotated[timedelta, Meta(description="Snapshots of every poll.")] = timedelta(days=1)
    hours: Annotated[timedelta, Meta(description="One snapshot an hour.")] = timedelta(days=30)
    days: Annotated[timedelta, Meta(description="One snapshot a day.")] = THIRTEEN_MONTHS
    events: Annotated[timedelta, Meta(description="Kubernetes events.")] = THIRTEEN_MONTHS
    metrics: Annotated[timedelta, Meta(description="Hourly means and peaks of each GPU.")] = THIRTEEN_MONTHS
    usage: Annotated[timedelta, Meta(description="GPU-hours per workload, and the workloads' names.")] = (
        THIRTEEN_MONTHS
    )
    states: Annotated[timedelta, Meta(description="States of each GPU in time.")] = THIRTEEN_MONTHS
    topology: Annotated[
        timedelta, Meta(description="Who held which GPUs, what changed, nodes and GPUs that are gone.")
    ] = THIRTEEN_MONTHS
    observations: Annotated[timedelta, Meta(description="What each poll cost and could not see.")] = (
        THIRTEEN_MONTHS
    )
    incidents: Annotated[
        timedelta, Meta(description="Resolved incidents with their events and excerpts; open ones stay.")
    ] = THIRTEEN_MONTHS


def retention(raw: Mapping[str, Any], otherwise: Retention | None = None) -> Retention:
    """Read `{"polls": "2d", …}`; durations are text with units, and what is not named is as in `otherwise`.

    Raises RetentionError.
    """
    values: dict[str, timedelta] = {}
    for name, value in raw.items():
        if name not in Retention.__struct_fields__:
            msg = f"nothing is kept under the name {name!r}"
            raise RetentionError(msg)
        values[name] = _span(name, value)
    read = msgspec.structs.replace(otherwise or Retention(), **values)
    if not read.polls <= read.hours <= read.days:
        msg = "polls must not be kept longer than hours, nor hours longer than days"
        raise RetentionError(msg)
    return read


def _span(name: str, value: Any) -> timedelta:
    if not isinstance(value, str):
        msg = f'{name}: a duration needs its unit, for example "30d"'
        raise RetentionError(msg)
    try:
        span = duration(value)
    except ValueError as error:
        msg = f"{name}: {error}"
        raise RetentionError(msg) from None
    if not LEAST <= span <= MOST:
        msg = f"{name}: {value} is not from 3h to {MOST.days}d"
        raise RetentionError(msg)
    return span
