"""What people do about an incident: acknowledge, assign, comment, check off the steps of its fix.

Each act locks the incident, as polls do, and adds an event; an act that changes nothing adds none, so that a form
sent twice counts once. Everything but events follows from them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import transaction
from django.utils import timezone

from diagnostics.fixes import StepKind
from diagnostics.incidents.steps import ShownStep, checked
from diagnostics.models import Incident, IncidentEvent, User
from diagnostics.storable import storable_text

LONGEST_COMMENT = 4000
"""Characters."""

Status = Incident.Status
Kind = IncidentEvent.Kind
_STEPS = (Kind.STEP_CHECKED, Kind.STEP_UNCHECKED, Kind.REOPENED)


class Refused(ValueError):
    """It cannot be done; the message says why, for whoever asked."""


def acknowledge(incident_pk: int, actor: User) -> bool:
    """Somebody looks after it. Whether that is news. Raises Refused for what is resolved."""
    with _locked(incident_pk) as incident:
        if incident.is_resolved:
            raise Refused("It is resolved: there is nothing left to acknowledge.")
        return _move(incident, actor, Status.ACKNOWLEDGED, Kind.ACKNOWLEDGED)


def unacknowledge(incident_pk: int, actor: User) -> bool:
    """Nobody looks after it after all. Whether that is news. Raises Refused for what is resolved."""
    with _locked(incident_pk) as incident:
        if incident.is_resolved:
            raise Refused("It is resolved: there is nothing to take back.")
        return _move(incident, actor, Status.OPEN, Kind.UNACKNOWLEDGED)


def assign(incident_pk: int, actor: User, assignee: User | None) -> bool:
    """To somebody, or to nobody. Whether that is news. Raises Refused for somebody who may not sign in."""
    if assignee is not None and not assignee.is_active:
        raise Refused("That user may not sign in any more.")
    with _locked(incident_pk) as incident:
        if incident.assignee_id == (assignee.pk if assignee else None):
            return False
        incident.assignee = assignee
        incident.save(update_fields=["assignee"])
        _note(incident, actor, Kind.ASSIGNED, to=assignee.get_username() if assignee else "")
        return True


def comment(incident_pk: int, actor: User, text: str, after: int) -> bool:
    """Plain text. Whether it is new: not if `actor` has said just that since the event with the primary key `after`,
    which was the last that the form's page knew. Raises Refused where there are no words, or too many.
    """
    text = storable_text(text.replace("\r\n", "\n").strip())
    if not text:
        raise Refused("A comment needs words.")
    if len(text) > LONGEST_COMMENT:
        raise Refused(f"A comment takes {LONGEST_COMMENT:,} characters; this one has {len(text):,}.")
    with _locked(incident_pk) as incident:
        mine = incident.events.filter(kind=Kind.COMMENTED, actor=actor, pk__gt=after)
        if any(event.data.get("text") == text for event in mine):
            return False
        _note(incident, actor, Kind.COMMENTED, text=text)
        return True


def check_step(incident_pk: int, actor: User, step: ShownStep) -> bool:
    """The step as it was shown is done. Whether that is news."""
    with _locked(incident_pk) as incident:
        standing = checked(_step_events(incident))
        if step.digest in standing:
            return False
        _note(incident, actor, Kind.STEP_CHECKED, **_as_data(step))
        _settle(incident, [*(one.step.kind for one in standing.values()), step.kind])
        return True


def uncheck_step(incident_pk: int, actor: User, step: ShownStep) -> bool:
    """It is not done after all. Whether that is news."""
    with _locked(incident_pk) as incident:
        standing = checked(_step_events(incident))
        if standing.pop(step.digest, None) is None:
            return False
        _note(incident, actor, Kind.STEP_UNCHECKED, **_as_data(step))
        _settle(incident, [one.step.kind for one in standing.values()])
        return True


@contextmanager
def _locked(pk: int) -> Iterator[Incident]:
    """The incident, its row locked to the end of the block; its finding stays unread."""
    with transaction.atomic():
        yield Incident.objects.select_for_update().defer("finding", "summary").get(pk=pk)


def _move(incident: Incident, actor: User, status: str, kind: str) -> bool:
    if incident.status == status:
        return False
    incident.status = status
    incident.save(update_fields=["status"])
    _note(incident, actor, kind)
    return True


def _settle(incident: Incident, kinds: list[str]) -> None:
    """Whether a fix was tried is settled once the incident is resolved: what is checked off later tried nothing."""
    if incident.is_resolved:
        return
    is_tried = StepKind.FIX.value in kinds
    incident.fix_status = Incident.FixStatus.CHECKED if is_tried else Incident.FixStatus.NONE
    incident.save(update_fields=["fix_status"])


def _step_events(incident: Incident) -> list[IncidentEvent]:
    return list(incident.events.filter(kind__in=_STEPS).select_related("actor").order_by("pk"))


def _as_data(step: ShownStep) -> dict[str, Any]:
    return {"step": step.digest, "number": step.number, "kind": step.kind, "title": step.title}


def _note(incident: Incident, actor: User, kind: str, /, **data: Any) -> None:
    IncidentEvent.objects.create(incident=incident, at=timezone.now(), kind=kind, actor=actor, data=data)
