"""How rows are compared and written: only what changed, in as many queries for ten rows as for ten thousand."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from django.db.models import Model

TOUCH_AFTER = timedelta(minutes=10)
"""`last_seen` may lag behind by so much: thousands of rows are not written at every poll for it."""


def assign(row: Model, values: Mapping[str, object]) -> bool:
    """Give the row these values; True when one of them is new."""
    changed = False
    for name, value in values.items():
        if getattr(row, name) != value:
            setattr(row, name, value)
            changed = True
    return changed


def write[M: Model](rows: Sequence[M], fields: Sequence[str] = ()) -> None:
    """Insert the new rows, which get their keys, and update the others: one query each, none for none.

    `fields`: what is updated of those that are there already; by default all.
    """
    if not rows:
        return
    model = type(rows[0])
    names = fields or [field.name for field in model._meta.concrete_fields if not field.primary_key]
    new = [row for row in rows if row._state.adding]
    old = [row for row in rows if not row._state.adding]
    model._default_manager.bulk_create(new)
    model._default_manager.bulk_create(old, update_conflicts=True, unique_fields=["pk"], update_fields=names)


def is_old(last_seen: datetime, now: datetime) -> bool:
    """`last_seen` has to be written anew; also when a clock that ran ahead was set right."""
    return abs(now - last_seen) >= TOUCH_AFTER
