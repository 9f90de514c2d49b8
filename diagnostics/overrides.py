"""What a site judges differently: its exceptions as people enter them, and the limits that a poll goes by."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec
from django.db import transaction
from django.db.models import Q

from diagnostics.clusters import limit_value
from diagnostics.limits import Limits, Override
from diagnostics.models import Cluster, OverrideEdit, RuleOverride, User
from diagnostics.models.edit import Edit
from diagnostics.quantities import rfc3339

Action = Edit.Action


def limits_of(cluster: Cluster, declared: Limits, now: datetime) -> Limits:
    """The declared limits with the exceptions that are entered for `cluster`. One query."""
    rows = RuleOverride.objects.filter(Q(cluster=cluster) | Q(cluster=None)).select_related("cluster")
    return merged(declared, [override_of(row) for row in rows], now)


def merged(declared: Limits, entered: Iterable[Override], now: datetime) -> Limits:
    """What is entered wins: it replaces what is declared for the same cluster, rule and namespace, and where else both
    say something about a subject, it says the last word. Of those entered, the one that is about less wins.
    """
    standing = sorted((override for override in entered if not override.is_over(now)), key=_precision)
    replaced = {override.scope for override in standing}
    kept = (override for override in declared.overrides if override.scope not in replaced)
    return msgspec.structs.replace(declared, overrides=(*kept, *standing))


def override_of(row: RuleOverride) -> Override:
    """What the rules are told. A limit that there is no longer, or with a value that is none, is left out."""
    values: dict[str, Any] = {}
    for name, text in row.values.items() if isinstance(row.values, Mapping) else ():
        with suppress(ValueError):
            values[name] = limit_value(name, text)
    return Override(
        rule=row.rule,
        namespace=row.namespace,
        cluster=row.cluster.slug if row.cluster else "",
        values=values,
        severity=row.severity,
        exempt=row.exempt,
        reason=row.reason,
        expires_at=row.expires_at,
    )


def _precision(override: Override) -> int:
    """Later ones win: a namespace says more than a rule, and a rule more than a cluster."""
    return 4 * bool(override.namespace) + 2 * bool(override.rule) + bool(override.cluster)


def enter(row: RuleOverride, actor: User) -> None:
    """Add `row`, or write over what it was. One transaction with its entry in the history."""
    with transaction.atomic():
        locked = RuleOverride.objects.select_for_update(of=("self",))
        old = locked.filter(pk=row.pk).first() if row.pk else None
        before = in_words(old) if old is not None else ""
        row.save()
        # Read again, so that both are told as the database holds them.
        new = RuleOverride.objects.get(pk=row.pk)
        after = in_words(new)
        if before != after:
            _note(new, actor, Action.CHANGED if old is not None else Action.ADDED, before, after)


def remove(row: RuleOverride, actor: User) -> None:
    """Take `row` away; the history keeps what it was."""
    with transaction.atomic():
        _note(row, actor, Action.REMOVED, in_words(row), "")
        row.delete()


def in_words(row: RuleOverride) -> str:
    """All that it says, on one line."""
    where = " in ".join(
        filter(
            None,
            (
                row.rule or "every rule",
                f"namespace {row.namespace}" if row.namespace else "",
                f"cluster {row.cluster.slug}" if row.cluster is not None else "every cluster",
            ),
        )
    )
    until = f", until {rfc3339(row.expires_at)}" if row.expires_at else ""
    changed = ["off"] if row.exempt else []
    if row.severity:
        changed.append(f"severity {row.severity}")
    changed += [f"{name} = {value}" for name, value in row.values.items()]
    return f"{where}: {'; '.join(changed)}{until}, because: {row.reason}"


def _note(row: RuleOverride, actor: User, action: Action, before: str, after: str) -> None:
    OverrideEdit.objects.create(
        actor=actor,
        actor_name=actor.get_username(),
        rule=row.rule,
        action=action,
        before=before,
        after=after,
    )
