"""A cluster in which everything is called something else, its rules' advice, and whether the names survive in it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from diagnostics.findings import Diagnosis, Finding
from diagnostics.fixes import Step
from diagnostics.snapshot import Container, Event, Snapshot
from tests.struct_walk import mapped

FIRST, LAST = "\N{MATHEMATICAL LEFT WHITE SQUARE BRACKET}", "\N{MATHEMATICAL RIGHT WHITE SQUARE BRACKET}"
"""Begin and end each name, and stand in nothing else: what is left of them is a part of a name."""
HOLDS_NAMES = frozenset(
    {
        "name",
        "namespace",
        "node",
        "pod",
        "container",
        "host",
        "nominated_node",
        "claim",
        "volume",
        "slot",
        "key",
    }
    | {"storage_class"}
    | {"holders", "members", "logs_read", "selected_node", "pod_group", "queue", "pods", "nodes", "consumers"}
    | {"parent", "cluster_queue"}
    | {"pool", "device_class", "resource_claims", "claim_templates", "claims"}
    | {"last_active", "xids", "fitted", "incidents", "memory_peaks"}
)
"""Fields that name objects, by themselves or as `namespace/name`, or `node/slot`."""
NAMING_LABELS = frozenset(
    {
        "scheduling.x-k8s.io/pod-group",
        "pod-group.scheduling.sigs.k8s.io/name",
        "scheduling.k8s.io/group-name",
        "scheduling.volcano.sh/group-name",
        "scheduling.volcano.sh/queue-name",
        "volcano.sh/job-name",
        "volcano.sh/queue-name",
        "kueue.x-k8s.io/queue-name",
        "kueue.x-k8s.io/pod-group-name",
        "jobset.sigs.k8s.io/jobset-name",
        "leaderworkerset.sigs.k8s.io/name",
        "training.kubeflow.org/job-name",
        "ray.io/cluster",
        "pod-group-name",
        "batch.kubernetes.io/job-name",
        "job-name",
    }
)
"""Labels and annotations whose value is the name of an object: a group, a queue, a job."""


_KILLED = re.compile(r"Container (\S+) failed (?:liveness|startup) probe")
"""The kubelet names the container that it kills in these words alone."""


class Advice(NamedTuple):
    finding: Finding
    number: int
    step: Step

    def __str__(self) -> str:
        return f"{self.finding.code} {self.finding.cause}, step {self.number}: {self.step.title[:80]!a}"


def advice(diagnosis: Diagnosis) -> Iterator[Advice]:
    """Every step of every finding's guided fix."""
    for finding in diagnosis.findings:
        for number, step in enumerate(finding.fix.steps, start=1):
            yield Advice(finding, number, step)


def names_of(whole: Snapshot) -> list[str]:
    """Of nodes, namespaces, pods, workloads, gangs, claims, and of containers that ask for GPUs, in order."""
    found = {
        item.name
        for field in whole.__struct_fields__
        for item in _items(getattr(whole, field))
        if field != "sources" and isinstance(getattr(item, "name", None), str)
    }
    found |= {pod.namespace for pod in whole.pods} | {w.namespace for w in whole.workloads}
    found |= {c.name for pod in whole.pods if pod.gpus for c in pod.containers}
    return sorted(name for name in found if name)


def renamed(whole: Snapshot, before: str = "", after: str = "") -> tuple[Snapshot, dict[str, str]]:
    """`whole` with other names, and old name -> new: marked ones, with `before` and `after` in each."""
    names = {old: f"{before}{FIRST}{number:04}{after}{LAST}" for number, old in enumerate(names_of(whole))}
    names |= {pod: names[owner] + pod.removeprefix(owner) for pod, owner in _gone(whole)}
    return mapped(whole, lambda item: _with_names(item, names)), names


def _gone(whole: Snapshot) -> Iterator[tuple[str, str]]:
    """Pods that only events know, and what they were made by: nothing but their names tells it."""
    for event in whole.events:
        if event.kind != "Pod" or f"{event.namespace}/{event.name}" in whole.pod_by_key:
            continue
        made_by = [
            w.name
            for w in whole.workloads
            if w.namespace == event.namespace and event.name.startswith(f"{w.name}-")
        ]
        if made_by:
            yield event.name, max(made_by, key=len)


def _with_names(item: Any, names: Mapping[str, str]) -> Any:
    new = {
        field: _renamed(getattr(item, field), names)
        for field in item.__struct_fields__
        if field in HOLDS_NAMES and not (isinstance(item, Container) and item.name not in names)
    }
    if "spec" in item.__struct_fields__ and isinstance(item.spec, dict):
        new["spec"] = _spec(item.spec, names)
    for field in {"labels", "annotations"} & set(item.__struct_fields__):
        new[field] = _spec(getattr(item, field), names)
    if isinstance(item, Event) and (said := _KILLED.match(item.message)):
        name = names.get(said[1], said[1])
        new["message"] = f"Container {name}{item.message[said.end(1) :]}"
    return msgspec.structs.replace(item, **new) if new else item


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    match value:
        case str():
            head, slash, tail = value.partition("/")
            if value in names or not slash:
                return names.get(value, value)
            return f"{names.get(head, head)}/{names.get(tail, tail)}"
        case tuple():
            return tuple(_renamed(item, names) for item in value)
        case dict():
            return {
                _renamed(key, names): _renamed(item, names) if isinstance(item, str) else item
                for key, item in value.items()
            }
    return value


def _spec(value: Any, names: Mapping[str, str]) -> Any:
    """A manifest's: what `name` and `claimName` say, and labels that name an object."""
    match value:
        case dict():
            return {
                key: names.get(item, item)
                if key in {"name", "claimName"} | NAMING_LABELS and isinstance(item, str)
                else _spec(item, names)
                for key, item in value.items()
            }
        case list() | tuple():
            return type(value)(_spec(item, names) for item in value)
    return value


def _items(value: Any) -> Iterator[Any]:
    match value:
        case tuple():
            yield from value
        case msgspec.Struct():
            for field in value.__struct_fields__:
                if isinstance(getattr(value, field), tuple):
                    yield from getattr(value, field)


def torn(text: str, names: Mapping[str, str]) -> str:
    """What is left of names in `text` once each whole one is taken out; empty when none was cut or changed."""
    for name in sorted(names.values(), key=len, reverse=True):
        text = text.replace(name, "")
    return text if FIRST in text or LAST in text else ""


def texts(value: Any) -> Iterator[str]:
    """Every string of a parsed document, keys included."""
    match value:
        case str():
            yield value
        case dict():
            for key, item in value.items():
                yield from texts(key)
                yield from texts(item)
        case list():
            for item in value:
                yield from texts(item)
