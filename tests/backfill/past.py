"""A cluster that is back-filled, and its ledger beside the simulator's books."""

from collections import Counter
from datetime import datetime

from diagnostics import usage
from diagnostics.models import STATES, Allocation, Cluster, StateInterval, UsageHour, Workload
from diagnostics.simulator import truth
from diagnostics.usage.moments import to_ms

LONG_MS = 24 * 3_600_000
"""Lines of more GPU-time than this are told to 2 % of their own, shorter ones of their team's."""


def polled(slug: str, at: datetime) -> Cluster:
    """A cluster whose first poll, at `at`, found nothing but itself."""
    cluster = Cluster.objects.create(slug=slug, name=slug, last_taken_at=at)
    Workload.objects.create(cluster=cluster, first_seen=at, last_seen=at)
    return cluster


def sums(cluster: Cluster, start: datetime, end: datetime) -> truth.Sums:
    """(namespace, state) -> milliseconds, as the simulator's book-keeping has them; gaps as `gap`."""
    names = dict(Workload.objects.filter(cluster=cluster).values_list("pk", "namespace"))
    total: Counter[tuple[str, str]] = Counter()
    for hour in usage.hours(cluster, start, end):
        total[names[hour.workload], "gap" if hour.is_gap else hour.state.value] += hour.gpu_ms
    return dict(total)


def sums_within(cluster: Cluster, start: datetime, end: datetime) -> truth.Sums:
    """As `sums`, of any span: from the stays; whose working time is one state."""
    names = dict(Workload.objects.filter(cluster=cluster).values_list("pk", "namespace"))
    total: Counter[tuple[str, str]] = Counter()
    first, last = to_ms(start), to_ms(end)
    rows = list(StateInterval.objects.filter(cluster=cluster, start_ms__lt=last, end_ms__gt=first))
    spans = [(row.start_ms, row.end_ms, STATES[row.state], row.holders, row.is_gap) for row in rows]
    spans += [
        (stay.start, stay.end, stay.state, list(stay.holders), stay.is_gap)
        for stay in usage.open_stays(cluster).values()
    ]
    for begun, ended, state, holders, is_gap in spans:
        ms = max(0, min(ended, last) - max(begun, first))
        team = names[holders[0]] if holders else ""
        total[team, "gap" if is_gap else state.value] += ms
    return {key: ms for key, ms in total.items() if ms}


def stays(cluster: Cluster) -> list[tuple[object, ...]]:
    """Every stay of every device, without keys; those that touch are one."""
    names = {w.pk: str(w) for w in Workload.objects.filter(cluster=cluster)}
    found: list[tuple[object, ...]] = []
    rows = (
        StateInterval.objects.filter(cluster=cluster)
        .select_related("device")
        .order_by("device__slot", "start_ms")
    )
    for row in rows:
        what = (
            row.device.slot,
            STATES[row.state],
            tuple(sorted(names[pk] for pk in row.holders)),
            row.is_gap,
        )
        if found and found[-1][:4] == what and found[-1][5] == row.start_ms:
            _, _, _, _, start, _, ineffective, waste = found.pop()
            found.append((*what, start, row.end_ms, ineffective + row.ineffective_ms, waste + row.waste_ms))  # type: ignore[operator]
        else:
            found.append((*what, row.start_ms, row.end_ms, row.ineffective_ms, row.waste_ms))
    return found


def ledger(cluster: Cluster) -> list[tuple[object, ...]]:
    """Every line of the ledger, without keys."""
    rows = UsageHour.objects.filter(cluster=cluster).select_related("workload", "model")
    return sorted(
        (
            row.hour,
            str(row.workload),
            row.model.name,
            row.state,
            row.is_gap,
            row.is_backfilled,
            row.gpu_ms,
            row.waste_ms,
        )
        for row in rows
    )


def allocations(cluster: Cluster) -> list[tuple[object, ...]]:
    """Who held what from when to when, without keys."""
    rows = Allocation.objects.filter(cluster=cluster).select_related("workload", "node")
    return sorted(
        (row.node.name, row.pod, str(row.workload), tuple(row.slots), row.started_at, row.ended_at)
        for row in rows
    )


def differences(found: truth.Sums, real: truth.Sums) -> dict[tuple[str, str], str]:
    """Lines that are more than 2 % of their team's time off, or of their own where they are long."""
    teams: Counter[str] = Counter()
    for (team, _), ms in real.items():
        teams[team] += ms
    off = {}
    for key in found.keys() | real.keys():
        one, other = found.get(key, 0), real.get(key, 0)
        most = 0.02 * (other if other > LONG_MS else teams[key[0]])
        if abs(one - other) > most:
            off[key] = f"{one / 3.6e6:.2f} h instead of {other / 3.6e6:.2f} h"
    return off
