"""What happened in 13 months besides the ledger: incidents, changes, polls, what nodes measured; and prices."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice

from django.db.models import Max

from diagnostics.archive import rollups, tiers
from diagnostics.models import (
    ChangeKind,
    Cluster,
    EventHour,
    Excerpt,
    Incident,
    IncidentEvent,
    MetricDay,
    Node,
    Observation,
    Price,
    TeamRule,
    TopologyChange,
)
from tests.bench.history import HOUR, History
from tests.bench.slots import HOURS

INCIDENTS_AN_HOUR, CHANGES_A_DAY, POLLS_AN_HOUR = 2, 60, 60
AGAIN = 3
"""Every third incident is one that had been resolved before: of the same rule and subject as one that is open."""
_OPENED, _RESOLVED = IncidentEvent.Kind.OPENED, IncidentEvent.Kind.RESOLVED
TIMELINE = (
    (0, _OPENED, '{"severity": "warning"}'),
    (120, IncidentEvent.Kind.ACKNOWLEDGED, "{}"),
    (300, IncidentEvent.Kind.COMMENTED, '{"text": "Drained the node, reset is under way."}'),
    (
        900,
        IncidentEvent.Kind.STEP_CHECKED,
        '{"step": "0123456789abcdef", "number": 2, "kind": "fix", "title": "Reset the GPU"}',
    ),
    (1000, _RESOLVED, '{"reason": "no longer seen"}'),
    (1000, IncidentEvent.Kind.FIX_VERIFIED, '{"cause": "<cause>"}'),
)
"""(thousandths of its life, kind, data) of each event."""


def priced(cluster: Cluster, now: datetime) -> None:
    """Prices, one of which has changed, and teams by label and by namespace; one model has no price."""
    changed = now - timedelta(days=100)
    TeamRule.objects.create(by=TeamRule.By.LABEL, key="team", priority=1)
    TeamRule.objects.create(by=TeamRule.By.NAMESPACE, pattern="re*", team="research", priority=2)
    Price.objects.create(cluster=cluster, pattern="*H100*", per_gpu_hour="4.0", valid_to=changed)
    Price.objects.create(cluster=cluster, pattern="*H100*", per_gpu_hour="3.5", valid_from=changed)
    Price.objects.create(pattern="*A100*", per_gpu_hour="1.5")


def incidents(history: History, user: int) -> None:
    """20,000 that were resolved, each with its timeline and an excerpt."""
    cluster = history.cluster
    present = list(cluster.incidents.opened().order_by("pk").values_list("pk", "fingerprint"))
    history.table(
        "past",
        "template bigint, identity text, first integer, past integer",
        _past(present),
    )
    table = Incident._meta.db_table
    known = cluster.incidents.aggregate(last=Max("pk"))["last"]
    history.copied(
        Incident,
        f"past p JOIN {table} t ON t.id = p.template JOIN hours b ON b.n = p.first JOIN hours e ON e.n = p.past "
        "ORDER BY p.first",
        fingerprint="p.identity",
        status=f"'{Incident.Status.RESOLVED}'",
        first_seen="b.at",
        opened_at="b.at",
        last_seen="e.at",
        resolved_at="e.at",
        judged_at="e.at",
        resolution="'The last polls do not see it any more.'",
        fix_status=f"'{Incident.FixStatus.VERIFIED}'",
        assignee_id=str(user),
    )
    history.table(
        "timeline",
        "part bigint, kind text, data text, actor bigint",
        ((part, kind, data, None if kind in {_OPENED, _RESOLVED} else user) for part, kind, data in TIMELINE),
    )
    history.copied(
        IncidentEvent,
        f"{table} i CROSS JOIN timeline x WHERE i.id > {known} ORDER BY i.id, x.part",
        incident_id="i.id",
        at="CASE WHEN x.part < 1000 THEN i.opened_at ELSE i.resolved_at END",
        kind="x.kind",
        actor_id="x.actor",
        data=history.json("replace(x.data, '<cause>', i.cause)"),
    )
    one = Excerpt.objects.filter(incident__cluster=cluster).first()
    assert one is not None
    history.copied(
        Excerpt,
        f"{table} i JOIN {Excerpt._meta.db_table} t ON t.id = {one.pk} WHERE i.id > {known}",
        incident_id="i.id",
        at="i.opened_at",
    )


def _past(present: list[tuple[int, str]]) -> Iterator[tuple[int, str, int, int]]:
    """(template, fingerprint, hour in which it opened, in which it was resolved) of what is over."""
    for number in range((HOURS - 100) * INCIDENTS_AN_HOUR):
        pk, fingerprint = present[number * 31 % len(present)]
        begin = number // INCIDENTS_AN_HOUR
        identity = fingerprint if number % AGAIN == 0 else f"{number:016x}"
        yield pk, identity, begin, begin + 1 + number * 7 % 90


def changes(history: History) -> None:
    """Nodes that reboot, are cordoned, lose GPUs."""
    nodes = list(Node.objects.filter(cluster=history.cluster).order_by("pk").values_list("pk", "name"))
    kinds = list(ChangeKind)
    number = CHANGES_A_DAY * HOURS // 24
    rows = (
        TopologyChange(
            cluster=history.cluster,
            node_id=nodes[i * 37 % len(nodes)][0],
            at=history.moment(0) + i * (HOURS * HOUR / number),
            kind=kinds[i % len(kinds)],
            subject=nodes[i * 37 % len(nodes)][1],
            before="7x1g.10gb",
            after="1x3g.40gb",
        )
        for i in range(number)
    )
    while some := list(islice(rows, 5_000)):
        TopologyChange.objects.bulk_create(some)


def polls(history: History) -> None:
    """One a minute, each with all that the last one noted."""
    last = Observation.objects.filter(cluster=history.cluster).latest()
    table = Observation._meta.db_table
    at = history.later("h.at", "m.n")
    # The row that the pages see is the newest by time and by key: it is added anew.
    later = [*Observation.objects.filter(cluster=history.cluster).order_by("pk")]
    Observation.objects.filter(cluster=history.cluster).exclude(pk=last.pk).delete()
    history.copied(
        Observation,
        f"(SELECT {at} AS at FROM hours h CROSS JOIN hours m WHERE h.n < {HOURS} AND m.n < {POLLS_AN_HOUR}) x "
        f"JOIN {table} t ON t.id = {last.pk} ORDER BY x.at",
        taken_at="x.at",
        started_at="x.at",
        finished_at="x.at",
    )
    last.delete()
    for row in later:
        row.pk = None
        row.save(force_insert=True)


def measured(history: History) -> None:
    """Hourly means of every GPU on every day, and the events of every hour: one day and one hour of them, copied."""
    cluster, day = history.cluster, history.moment(HOURS).date()
    nodes = dict(Node.objects.filter(cluster=cluster).values_list("name", "pk"))
    sums = rollups._sums(tiers.samples_of(cluster, history.moment(HOURS), history.moment(HOURS + 1)))
    rows = []
    for name, slots in sums.items():
        devices = {slot: rollups._empty() for slot in slots}
        for slot, device in slots.items():
            for hour in range(24):
                rollups._put(devices[slot], hour, device, expected=float(device.samples or 1))
        rows.append(MetricDay(node_id=nodes[name], day=day, data=rollups._packed(devices)))
    MetricDay.objects.bulk_create(rows, batch_size=500)
    history.copied(MetricDay, f"days d CROSS JOIN {MetricDay._meta.db_table} t", day="d.day")
    newest = EventHour.objects.filter(cluster=cluster).order_by("-hour").first()
    assert newest is not None
    table = EventHour._meta.db_table
    history.copied(
        EventHour,
        f"hours h JOIN {table} t ON t.id = {newest.pk} WHERE h.at NOT IN (SELECT hour FROM {table})",
        hour="h.at",
    )
