"""record(): what one poll found becomes incidents that open, stay, close and come back."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec
from django.db import transaction
from django.db.models import Q

from diagnostics.findings import Diagnosis, Finding, Severity, fingerprint
from diagnostics.incidents.cost import NO_WORKLOADS
from diagnostics.incidents.verification import PODS_ENDED, PODS_GONE, VERIFIED_AFTER
from diagnostics.models import Cluster, Incident, IncidentEvent
from diagnostics.models.cluster import LATE_AT_MOST
from diagnostics.quantities import span
from diagnostics.rules import catalogue
from diagnostics.snapshot import Snapshot, Source, SourceState
from diagnostics.storable import storable, storable_text

RESOLVE_AFTER = 2
"""Polls in a row that looked and did not find it."""
RESOLVE_PARTIAL_AFTER = 10
"""The same where data were incomplete but showed the incident's subject: a part of it may have been left out (ours)."""
GIVEN_UP_AFTER = timedelta(hours=24)
"""An incident whose subject cannot be seen in incomplete data is closed after so long (ours)."""
REOPEN_WITHIN = timedelta(hours=24)
"""What returns later than this after it was resolved is a new incident."""
DEFAULT_HOLD = 2
EXEMPT = "exempt: "
"""How the resolution of what was silenced begins; its reason follows."""

Status = Incident.Status
Kind = IncidentEvent.Kind
FixStatus = Incident.FixStatus

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Recorded:
    """What one poll changed."""

    is_late: bool = False
    """Not newer than the last recorded poll: nothing was changed."""
    held: frozenset[str] = frozenset()
    """Fingerprints of the findings that are past their holding time: their incidents are open."""
    opened: int = 0
    reopened: int = 0
    resolved: int = 0


def record(
    cluster: Cluster, snapshot: Snapshot, diagnosis: Diagnosis, holds: Mapping[str, int] | None = None
) -> Recorded:
    """Bring the cluster's incidents up to date, in one transaction and a fixed number of queries.

    `holds`: rule code -> polls that a finding must last before its incident opens; by default the catalogue's.
    Only absence that was looked for counts: rules that were skipped, failed or saw incomplete data, and
    subjects that could not be judged, change nothing.
    """
    if holds is None:
        holds = {rule.code: rule.hold for rule in catalogue()}
    with transaction.atomic():
        last = Cluster.objects.select_for_update().values_list("last_taken_at", flat=True).get(pk=cluster.pk)
        if last is not None and last - LATE_AT_MOST <= snapshot.taken_at <= last:
            log.warning("%s: nothing kept, because it is not newer than the last poll", cluster.slug)
            return Recorded(is_late=True)
        cluster.last_taken_at = snapshot.taken_at
        cluster.save(update_fields=["last_taken_at"])
        poll = _Poll(cluster, snapshot.taken_at, diagnosis, holds, _Subjects(snapshot))
        poll.reconcile()
        poll.write()
        return poll.recorded()


@dataclass
class _Poll:
    """One reconciliation: incidents as they were, the transitions, and what has to be written."""

    cluster: Cluster
    at: datetime
    diagnosis: Diagnosis
    holds: Mapping[str, int]
    subjects: "_Subjects"
    known: dict[str, Incident] = field(default_factory=dict)
    """Fingerprint -> the incident that is alive, or else the last one that may be reopened."""
    changed: list[Incident] = field(default_factory=list)
    gone: list[Incident] = field(default_factory=list)
    events: list[IncidentEvent] = field(default_factory=list)

    def reconcile(self) -> None:
        recent = Q(resolved_at__gte=self.at - REOPEN_WITHIN) | Q(seen_polls__gt=0)
        # Locked, because people follow incidents up meanwhile: neither side overwrites what the other did.
        incidents = self.cluster.incidents.select_for_update().filter(~Q(status=Status.RESOLVED) | recent)
        # Those alive come last and win.
        for incident in sorted(incidents, key=lambda i: (not i.is_resolved, i.resolved_at or self.at, i.pk)):
            self.known[incident.fingerprint] = incident
        seen = {finding.id: finding for finding in self.diagnosis.findings}
        absent = [incident for identity, incident in self.known.items() if identity not in seen]
        for finding in seen.values():
            self._see(finding)
        exempted = {
            fingerprint(self.cluster.identity, e.code, e.subject): e.reason for e in self.diagnosis.exempted
        }
        unjudged = {u.finding_id for u in self.diagnosis.unjudged}
        blind = {rule.code for rule in self.diagnosis.skipped} | {r.code for r in self.diagnosis.failed}
        partial = {rule.code for rule in self.diagnosis.partial}
        for incident in absent:
            if incident.fingerprint in exempted:
                self._exempt(incident, exempted[incident.fingerprint])
            elif incident.code in blind or incident.fingerprint in unjudged:
                continue
            elif incident.code not in partial:
                self._miss(incident, RESOLVE_AFTER, is_complete=True)
            elif self.subjects.shows(incident):
                self._miss(incident, RESOLVE_PARTIAL_AFTER, is_complete=False)
            elif incident.is_open and self.at - incident.last_seen > GIVEN_UP_AFTER:
                self.changed.append(incident)
                self._resolve(incident, f"not found for {span(GIVEN_UP_AFTER)} in which data were incomplete")

    def _see(self, finding: Finding) -> None:
        incident = self.known.get(finding.id)
        if incident is None:
            incident = Incident(cluster=self.cluster, fingerprint=finding.id, first_seen=self.at)
            self.known[finding.id] = incident
        self.changed.append(incident)
        incident.seen_polls += 1
        incident.absent_polls, incident.clear_polls, incident.judged_at = 0, 0, self.at
        is_held = incident.seen_polls >= self.holds.get(finding.code, DEFAULT_HOLD)
        if incident.is_open:
            self._note_change(incident, Kind.SEVERITY_CHANGED, incident.severity, finding.severity.value)
            self._note_change(incident, Kind.CAUSE_CHANGED, incident.cause, storable_text(finding.cause, 80))
        elif is_held and incident.is_resolved:
            self._note_failed_fix(incident)
            incident.status, incident.reopened_at = Status.OPEN, self.at
            incident.resolved_at, incident.resolution = None, ""
            incident.reopened_count += 1
            self._event(incident, Kind.REOPENED, **_as_opened(finding))
        elif is_held:
            incident.status, incident.opened_at = Status.OPEN, self.at
            self._event(incident, Kind.OPENED, **_as_opened(finding))
        if not incident.is_resolved:
            _describe(incident, finding, self.at)

    def _miss(self, incident: Incident, enough: int, *, is_complete: bool) -> None:
        is_counted = is_complete and self._count_clear(incident)
        if incident.is_resolved:
            if incident.seen_polls or is_counted:
                incident.seen_polls = 0
                self.changed.append(incident)
            return
        incident.seen_polls = 0
        incident.absent_polls += 1
        if incident.status == Status.PENDING:
            self.gone.append(incident)
            return
        self.changed.append(incident)
        if incident.absent_polls >= enough:
            ended = self.subjects.ended(incident)
            self._resolve(incident, ended or f"not found by {incident.absent_polls} polls in a row")

    def _count_clear(self, incident: Incident) -> bool:
        """Complete data do not show it: that counts towards verifying its fix, until it is verified."""
        if incident.clear_polls >= VERIFIED_AFTER:
            return False
        incident.clear_polls += 1
        incident.judged_at = self.at
        if (incident.fix_status, incident.clear_polls) == (FixStatus.CHECKED, VERIFIED_AFTER):
            incident.fix_status = FixStatus.VERIFIED
            self._event(incident, Kind.FIX_VERIFIED, cause=incident.cause)
        return True

    def _note_failed_fix(self, incident: Incident) -> None:
        """It comes back. What was checked off belongs to the occurrence that has ended."""
        within = incident.resolved_at is not None and self.at - incident.resolved_at <= REOPEN_WITHIN
        if incident.fix_status and within:
            was_verified = incident.fix_status == FixStatus.VERIFIED
            self._event(incident, Kind.FIX_FAILED, cause=incident.cause, was_verified=was_verified)
        incident.fix_status = FixStatus.NONE

    def _exempt(self, incident: Incident, reason: str) -> None:
        if incident.status == Status.PENDING:
            self.gone.append(incident)
        elif incident.is_open:
            incident.seen_polls = 0
            # Nothing was mended, so that nothing can hold or fail.
            incident.fix_status = FixStatus.NONE
            self.changed.append(incident)
            self._resolve(incident, storable_text(f"{EXEMPT}{reason}"))

    def _resolve(self, incident: Incident, reason: str) -> None:
        incident.status, incident.resolved_at, incident.resolution = Status.RESOLVED, self.at, reason
        self._event(incident, Kind.RESOLVED, reason=reason, title=incident.title)

    def _note_change(self, incident: Incident, kind: str, before: str, after: str) -> None:
        if before != after:
            self._event(incident, kind, **{"from": before, "to": after})

    def _event(self, incident: Incident, kind: str, **data: Any) -> None:
        self.events.append(IncidentEvent(incident=incident, at=self.at, kind=kind, data=data))

    def write(self) -> None:
        """New rows first, because events and causes refer to them."""
        new = [incident for incident in self.changed if incident._state.adding]
        old = [incident for incident in self.changed if not incident._state.adding]
        Incident.objects.bulk_create(new)
        Incident.objects.bulk_create(old, update_conflicts=True, unique_fields=["pk"], update_fields=_UPDATED)
        IncidentEvent.objects.bulk_create(self.events)
        Incident.objects.filter(pk__in=[incident.pk for incident in self.gone]).delete()
        self._write_causes()

    def _write_causes(self) -> None:
        link = Incident.causes.through
        seen = [(self.known[f.id], f.caused_by) for f in self.diagnosis.findings]
        wanted = {
            (incident.pk, self.known[cause].pk)
            for incident, causes in seen
            for cause in causes
            if cause in self.known and cause != incident.fingerprint
        }
        explained = {incident.pk for incident, _ in seen}
        present = {
            (row.from_incident_id, row.to_incident_id): row.pk
            for row in link.objects.filter(from_incident__cluster=self.cluster)
            if row.from_incident_id in explained
        }
        link.objects.filter(pk__in=[present[pair] for pair in present.keys() - wanted]).delete()
        link.objects.bulk_create(
            [
                link(from_incident_id=symptom, to_incident_id=cause)
                for symptom, cause in wanted - present.keys()
            ]
        )

    def recorded(self) -> Recorded:
        kinds = [event.kind for event in self.events]
        return Recorded(
            held=frozenset(f.id for f in self.diagnosis.findings if self.known[f.id].is_open),
            opened=kinds.count(Kind.OPENED),
            reopened=kinds.count(Kind.REOPENED),
            resolved=kinds.count(Kind.RESOLVED),
        )


class _Subjects:
    """What a snapshot shows: where data are incomplete, absence counts only for what was looked at."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.nodes = snapshot.node_by_name.keys()
        self.slots = {gpu.slot for gpu in snapshot.gpus}
        self.owners = {(o.kind, o.namespace, o.name): pods for o, pods in snapshot.pods_by_root.items()}
        self.pods = snapshot.pod_by_key
        self.has_all_pods = snapshot.source(Source.PODS).state is SourceState.OK

    def shows(self, incident: Incident) -> bool:
        """The incident's node or GPU is there, or pods of its owner are."""
        match incident.subject_kind:
            case "Node":
                return incident.subject_name in self.nodes
            case "GPU":
                return incident.subject_name in self.slots
        return (incident.subject_kind, incident.subject_namespace, incident.subject_name) in self.owners

    def ended(self, incident: Incident) -> str:
        """What became of a workload's pods, where none that it was about and none that came after is left to wait or
        to run; empty where one is, or nothing says.
        """
        named = incident.finding.get("pods", ())
        if not named or not self.has_all_pods or incident.subject_kind in NO_WORKLOADS:
            return ""
        owner = (incident.subject_kind, incident.subject_namespace, incident.subject_name)
        left = [self.pods[key] for key in named if key in self.pods] + self.owners.get(owner, [])
        if not left:
            return PODS_GONE
        return PODS_ENDED if all(pod.is_finished for pod in left) else ""


_UPDATED = [
    name
    for name in (f.attname for f in Incident._meta.concrete_fields)
    if name not in {"id", "cluster_id", "fingerprint", "first_seen", "assignee_id"}
]


def _as_opened(finding: Finding) -> dict[str, str]:
    return {"severity": finding.severity.value, "title": storable_text(finding.title)}


def _describe(incident: Incident, finding: Finding, at: datetime) -> None:
    """Copy what the finding says now; texts come from the cluster and are cut to what the columns take."""
    held = msgspec.structs.replace(finding, held=incident.is_open)
    incident.finding = storable(held)
    incident.code, incident.slug = finding.code, finding.slug
    incident.severity, incident.confidence = finding.severity.value, finding.confidence.value
    incident.severity_rank = Severity(finding.severity).rank
    incident.cause = storable_text(finding.cause, 80)
    incident.subject_kind = storable_text(finding.subject.kind, 80)
    incident.subject_namespace = storable_text(finding.subject.namespace, 253)
    incident.subject_name = storable_text(finding.subject.name, 600)
    incident.subject_uid = storable_text(finding.subject.uid, 120)
    incident.title, incident.summary = storable_text(finding.title), storable_text(finding.summary)
    incident.gpus = finding.gpus
    incident.waste_gpus = incident.finding.get("waste_gpus")
    incident.last_seen = at
