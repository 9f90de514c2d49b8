"""Team rules and prices as people enter them: each change with who made it."""

from decimal import Decimal

from django.db import transaction

from diagnostics.models import Price, TeamRule, UsageEdit, User
from diagnostics.models.edit import Edit
from diagnostics.quantities import rfc3339

Action = Edit.Action


def enter(row: TeamRule | Price, actor: User) -> None:
    """Add `row`, or write over what it was. One transaction with its entry in the history."""
    with transaction.atomic():
        old = type(row)._default_manager.select_for_update().filter(pk=row.pk).first() if row.pk else None
        row.save()
        # Read again, so that both are told as the database holds them.
        new = type(row)._default_manager.get(pk=row.pk)
        before, after = in_words(old) if old is not None else "", in_words(new)
        if before != after:
            _note(row, actor, Action.CHANGED if old is not None else Action.ADDED, before, after)


def remove(row: TeamRule | Price, actor: User) -> None:
    """Take `row` away; the history keeps what it was."""
    with transaction.atomic():
        _note(row, actor, Action.REMOVED, in_words(row), "")
        row.delete()


def in_words(row: TeamRule | Price) -> str:
    """All that it says, on one line."""
    where = f"cluster {row.cluster.slug}" if row.cluster is not None else "every cluster"
    if isinstance(row, TeamRule):
        subject = "namespace" if row.by == TeamRule.By.NAMESPACE else f"{row.by} {row.key}"
        team = row.team or "its own value"
        return f"{row.priority}: {subject} like {row.pattern or '*'} is team {team}, in {where}"
    spans = [
        f"{word} {rfc3339(at)}" for word, at in (("from", row.valid_from), ("until", row.valid_to)) if at
    ]
    held = f", {' '.join(spans)}" if spans else ""
    return f"{written(row.per_gpu_hour)} {row.currency} per GPU-hour of {row.pattern}, in {where}{held}"


def written(price: Decimal) -> str:
    """`2.5`, `12`, `0.0375`."""
    return f"{price.normalize():f}"


def _note(row: TeamRule | Price, actor: User, action: Action, before: str, after: str) -> None:
    about = UsageEdit.About.TEAM_RULE if isinstance(row, TeamRule) else UsageEdit.About.PRICE
    UsageEdit.objects.create(
        actor=actor, actor_name=actor.get_username(), about=about, action=action, before=before, after=after
    )
