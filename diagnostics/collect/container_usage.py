"""CPU and host memory of GPU pods' containers from Prometheus: one question per metric for the whole cluster."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import msgspec

from diagnostics.collect.bounded_http import Unreadable
from diagnostics.collect.dcgm import Skips
from diagnostics.collect.dcgm_labels import owner_of
from diagnostics.collect.dcgm_metrics import MIB
from diagnostics.collect.prometheus_connection import Connection, Series, number, shown_name
from diagnostics.collect.target import PrometheusTarget
from diagnostics.collect.usage_questions import IO_WAIT, LOW, MEASURE, OFFSETS, UsageQuestions
from diagnostics.quantities import span as span_words
from diagnostics.snapshot import (
    ContainerUsage,
    DeviceCourse,
    Low,
    NodeUsage,
    Pod,
    Snapshot,
    Source,
    SourceState,
    SourceStatus,
    Stat,
)
from diagnostics.text import listed

NOT_WITHOUT = "needs a Prometheus that scrapes the kubelets' cAdvisor metrics"
BUDGET_S = 30.0
"""For all questions together."""
_HUGE = 2.0**60


class _DeviceLows(msgspec.Struct, frozen=True):
    uuid: str
    instance: str
    pod: str | None
    lows: tuple[Low, ...]


class UsageReadings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of one pass, with the status of USAGE."""

    status: SourceStatus
    containers: tuple[ContainerUsage, ...] = ()
    devices: tuple[_DeviceLows, ...] = ()
    nodes: dict[str, float] = {}
    """Host as a label names it -> share of CPU time that waited for disks."""


def unasked() -> UsageReadings:
    """Of a cluster without a Prometheus."""
    return UsageReadings(status=SourceStatus(name=Source.USAGE, state=SourceState.ABSENT, detail=NOT_WITHOUT))


def read_usage(
    target: PrometheusTarget, pods: Iterable[Pod], span: timedelta, now: datetime, timeout_s: float
) -> UsageReadings:
    """Usage over the `span` before `now` of the containers of GPU pods. Never raises: the status says what failed.

    Each question waits for `timeout_s` at most.
    """
    started = time.monotonic()
    held = {pod.key: pod for pod in pods if pod.gpus and pod.node is not None}
    questions = UsageQuestions(target.extra_matchers, span, sorted({pod.namespace for pod in held.values()}))
    skips, who = Skips(), shown_name(target)
    answers = _Answers(span, now.replace(microsecond=0))
    failures: list[Unreadable] = []
    try:
        with Connection(target, answers.now, timeout_s, BUDGET_S, skips) as connection:
            for query in questions.all() if held else ():
                try:
                    answers.take(connection.instant(query), held)
                except Unreadable as failure:
                    failures.append(failure)
    except Unreadable as failure:
        failures.append(failure)
    containers = answers.containers()
    state, detail = _judged(who, failures, len(containers), span if held else None)
    return UsageReadings(
        status=SourceStatus(
            name=Source.USAGE,
            state=state,
            detail=detail,
            items=len(containers) or None,
            seconds=time.monotonic() - started,
            read_at=answers.now,
            skipped=skips.listed(),
        ),
        containers=containers,
        devices=answers.devices(),
        nodes=answers.io_wait,
    )


def with_usage(snapshot: Snapshot, found: UsageReadings) -> Snapshot:
    """`snapshot` with what was found: devices by their UUID, nodes by the name that a label gives."""
    slots = {(gpu.uuid, gpu.mig_instance or ""): gpu for gpu in snapshot.gpus if gpu.uuid}
    courses: dict[str, DeviceCourse] = {}
    for device in found.devices:
        gpu = slots.get((device.uuid, device.instance))
        if gpu is not None and (device.pod is None or device.pod in gpu.holders):
            known = courses.get(gpu.slot)
            if known is None or len(known.lows) < len(device.lows):
                courses[gpu.slot] = DeviceCourse(slot=gpu.slot, pod=device.pod, lows=device.lows)
    with_gpus = snapshot.gpus_by_node
    nodes = {
        name: ratio
        for host, ratio in found.nodes.items()
        if (name := host if host in with_gpus else host.partition(".")[0]) in with_gpus
    }
    return msgspec.structs.replace(
        snapshot,
        sources=(*snapshot.sources, found.status),
        usage=found.containers,
        gpu_courses=tuple(courses[slot] for slot in sorted(courses)),
        node_usage=tuple(NodeUsage(node=name, io_wait_ratio=nodes[name]) for name in sorted(nodes)),
    )


def _judged(
    who: str, failures: list[Unreadable], containers: int, span: timedelta | None
) -> tuple[SourceState, str]:
    if failures:
        said = f"{who} {listed(list(dict.fromkeys(failure.detail for failure in failures)), 2)}"
        return (SourceState.PARTIAL if containers else failures[0].state), said
    if span is None:
        return SourceState.OK, ""
    if not containers:
        missing = f"holds no container_memory_working_set_bytes of GPU pods over the last {span_words(span)}"
        return SourceState.ABSENT, f"{who} {missing}: does it scrape the kubelets' cAdvisor metrics?"
    return SourceState.OK, ""


class _Answers:
    """What came back, by container, device and node."""

    def __init__(self, span: timedelta, now: datetime) -> None:
        self.now = now
        self.io_wait: dict[str, float] = {}
        self._span = span
        self._values: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        self._devices: dict[tuple[str, str, str | None], dict[str, float]] = defaultdict(dict)

    def take(self, answer: Iterable[Series], held: dict[str, Pod]) -> None:
        for series in answer:
            labels, value = series.metric, number(series)
            measure = labels.get(MEASURE, "")
            if value is None or not 0 <= value < _HUGE:
                continue
            if measure == IO_WAIT:
                for host in _hosts(labels):
                    self.io_wait.setdefault(host, min(1.0, value))
            elif uuid := labels.get("UUID") or labels.get("uuid"):
                self._devices[uuid, labels.get("GPU_I_ID", ""), owner_of(labels)][measure] = value * MIB
            else:
                key = f"{labels.get('namespace', '')}/{labels.get('pod', '')}"
                if key in held:
                    self._values[key, labels.get("container", "")][measure] = value

    def containers(self) -> tuple[ContainerUsage, ...]:
        return tuple(
            ContainerUsage(
                pod=pod,
                container=container,
                span=self._span,
                samples_count=int(told.get("count working_set", 0)),
                working_set_bytes=_stat(told, "working_set"),
                rss_bytes=_stat(told, "rss"),
                rss_lows=self._lows(told),
                throttled_ratio=None if (ratio := told.get("throttled")) is None else min(1.0, ratio),
                cpu_cores=told.get("cores"),
                oom_kills=told.get("oom_kills"),
            )
            for (pod, container), told in sorted(self._values.items())
        )

    def devices(self) -> tuple[_DeviceLows, ...]:
        return tuple(
            _DeviceLows(uuid, instance, pod, self._lows(told))
            for (uuid, instance, pod), told in sorted(self._devices.items(), key=str)
        )

    def _lows(self, told: dict[str, float]) -> tuple[Low, ...]:
        return tuple(
            Low(self.now - back, told[name])
            for back in reversed(OFFSETS)
            if (name := f"{LOW}{round(back.total_seconds())}") in told
        )


def _stat(told: dict[str, float], name: str) -> Stat | None:
    low, mean, high = (told.get(f"{part} {name}") for part in ("min", "avg", "max"))
    return None if low is None or mean is None or high is None else Stat(low, mean, high)


def _hosts(labels: dict[str, str]) -> Iterator[str]:
    for name in ("node", "nodename", "kubernetes_node", "Hostname"):
        if host := labels.get(name):
            yield host
    host, _, port = labels.get("instance", "").rpartition(":")
    if host and port.isdigit():
        yield host.strip("[]")
