"""Asks Prometheus about the last hours of some slots, and keeps the answer, whatever it is."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.conf import settings

from diagnostics.archive.live import Answer, Measured, answer_to, keep
from diagnostics.collect.bounded_http import Unreadable
from diagnostics.collect.declared import declared_target
from diagnostics.collect.prometheus_connection import shown_name
from diagnostics.collect.ranges import MOST_BOARDS, Range, read_range
from diagnostics.collect.target import PrometheusTarget
from diagnostics.models import Cluster, Device
from diagnostics.quantities import span as in_words
from diagnostics.text import counted, listed

SPAN = timedelta(hours=3)
STEP = timedelta(seconds=30)
ANSWERED_LATELY = timedelta(seconds=30)
"""Whoever asks again within this time gets the same answer, however many web processes ask."""


def answer(slug: str, slots: list[str], now: datetime) -> None:
    """Bring the last answer about these slots of one cluster up to date; nothing where the cluster is not known.

    Never raises for a Prometheus that fails: the answer says why there is nothing.
    """
    cluster = Cluster.objects.filter(slug=slug).first()
    declared = settings.CLUSTERS.get(slug)
    if cluster is None or declared is None:
        return
    last = answer_to(cluster, slots)
    if last is not None and timedelta() <= now - last.at < ANSWERED_LATELY:
        return
    target = declared_target(slug, declared)
    if target.prometheus is None:
        keep(cluster, slots, Answer(now, "No Prometheus is declared for this cluster.", None))
    else:
        found = _asked(cluster, slots, target.prometheus, now, target.request_timeout_s)
        keep(cluster, slots, found)


def _asked(
    cluster: Cluster, slots: list[str], target: PrometheusTarget, now: datetime, timeout_s: float
) -> Answer:
    rows = Device.objects.filter(cluster=cluster, slot__in=slots).exclude(uuid="")
    uuids = dict(rows.values_list("slot", "uuid"))
    if not uuids:
        why = "No UUID of these GPUs is known, and Prometheus can only be asked by UUID."
        return Answer(now, why, None)
    if len(boards := set(uuids.values())) > MOST_BOARDS:
        why = f"{len(boards)} boards are more than the {MOST_BOARDS} that Prometheus is asked about at once."
        return Answer(now, why, None)
    who = shown_name(target)
    try:
        found = read_range(target, boards, SPAN, STEP, now, timeout_s)
    except Unreadable as failure:
        return Answer(now, f"{who} {failure.detail}.", None)
    lines = {slot: _known(found.values.get(_key(slot, uuid), {})) for slot, uuid in uuids.items()}
    lines = {slot: fields for slot, fields in lines.items() if fields}
    if not lines:
        return Answer(now, f"{who} holds no series of these GPUs in the last {in_words(SPAN)}.", None)
    measured = Measured(found.grid.start_s, found.grid.step_s, found.grid.count, lines)
    return Answer(now, _doubts(who, slots, uuids, lines, found), measured)


def _known(fields: dict[str, list[float | None]]) -> dict[str, list[float | None]]:
    """Without the metrics of which there is no value at all."""
    return {field: values for field, values in fields.items() if any(value is not None for value in values)}


def _key(slot: str, uuid: str) -> tuple[str, str]:
    """Series of a MIG instance carry the UUID of the board that it lies on."""
    return uuid, slot.rpartition("/mig-")[2] if "/mig-" in slot else ""


def _doubts(
    who: str, slots: list[str], uuids: dict[str, str], lines: Mapping[str, object], found: Range
) -> str:
    """Why some of it is missing, in sentences."""
    said = []
    if unnamed := len(set(slots) - uuids.keys()):
        said.append(f"{counted(unnamed, 'GPU')} without a known UUID cannot be asked for.")
    if silent := len(uuids.keys() - lines.keys()):
        said.append(f"{who} holds no series of {silent} of them.")
    if found.warnings:
        said.append(f"{who} warns: {listed(found.warnings, 2)}.")
    return " ".join(said)
