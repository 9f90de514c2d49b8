"""Snapshots of which something is missing: sources, fields, the freshness of metrics; each reproducible by its seed."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random
from typing import Any, NamedTuple

import msgspec

from diagnostics.limits import Limits
from diagnostics.snapshot import (
    Container,
    Gpu,
    Metrics,
    Past,
    Policy,
    Snapshot,
    Source,
    SourceState,
    Storage,
    Window,
)
from diagnostics.snapshot.resource_claims import Allocation
from diagnostics.states import with_states
from tests.struct_walk import mapped

GIVES: dict[Source, dict[str, Any]] = {
    Source.NODES: {"nodes": ()},
    Source.PODS: {"pods": (), "gangs": ()},
    Source.EVENTS: {"events": ()},
    Source.NAMESPACES: {"namespaces": ()},
    Source.WORKLOADS: {"workloads": ()},
    Source.SERVICES: {"services": ()},
    Source.STORAGE: {"storage": Storage()},
    Source.POLICY: {"policy": Policy()},
    Source.CUSTOM: {"queues": (), "queued": (), "pod_groups": ()},
    Source.CLAIMS: {"dra": Allocation()},
    Source.LOGS: {"signals": (), "logs_read": ()},
    Source.METRICS: {},
    Source.WINDOW: {},
}
"""What a snapshot lacks without a source; metrics and windows are the GPUs' own."""
MISSING = (SourceState.ABSENT, SourceState.FORBIDDEN, SourceState.FAILED)


TOGETHER: dict[type[msgspec.Struct], frozenset[str]] = {
    Container: frozenset(
        {"state", "waiting_reason", "waiting_message", "running_since", "terminated", "last_terminated"}
        | {"restarts", "is_ready", "devices"}
    )
}
"""What comes in one object of the API comes whole or not at all: of a ContainerStatus `ready` and `restartCount` are
required (Kubernetes API reference).
"""


class Part(NamedTuple):
    """Fields that may be absent, and in which parts of a snapshot their objects are."""

    kind: type[msgspec.Struct]
    fields: tuple[msgspec.structs.FieldInfo, ...]
    within: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind.__name__}.{','.join(field.name for field in self.fields)}"


def degraded(whole: Snapshot, parts: Sequence[Part], seed: int) -> Snapshot:
    """`whole` with one to four things missing, its GPUs in the states that follow from what is left."""
    random = Random(seed)
    ways: tuple[Callable[[Snapshot, Random], Snapshot], ...] = (
        _without_source,
        _partial_source,
        lambda less, random: _without_field(less, random, parts),
        lambda less, random: _without_field(less, random, parts),
        _without_label,
        _stale,
        _without_past,
    )
    for _ in range(random.randint(1, 4)):
        whole = random.choice(ways)(whole, random)
    return with_its_states(whole)


def with_its_states(less: Snapshot) -> Snapshot:
    """As a poll would have judged the GPUs."""
    states = with_states(less, Limits())
    return _of_gpus(
        less,
        lambda gpu: msgspec.structs.replace(gpu, state=states[gpu.slot][0], is_unjudged=states[gpu.slot][1]),
    )


def parts_of(whole: Snapshot) -> list[Part]:
    """Every field of every kind of object in it that may be absent."""
    places: dict[type[msgspec.Struct], dict[str, None]] = {}
    for name in whole.__struct_fields__:

        def note(item: Any, name: str = name) -> Any:
            places.setdefault(type(item), {})[name] = None
            return item

        mapped(getattr(whole, name), note)
    found = []
    for kind, within in places.items():
        fields = [field for field in msgspec.structs.fields(kind) if not field.required]
        bound = [field for field in fields if field.name in TOGETHER.get(kind, ())]
        alone = [(field,) for field in fields if field not in bound]
        found += [Part(kind, tuple(group), tuple(within)) for group in (*alone, bound) if group]
    return found


def without(whole: Snapshot, part: Part, lacks: Callable[[], bool] = lambda: True) -> Snapshot:
    """`whole` without those fields, in those of its objects that `lacks` says."""
    nothing = {
        field.name: field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
        for field in part.fields
    }

    def lacking(item: Any) -> Any:
        if type(item) is not part.kind or not lacks():
            return item
        return msgspec.structs.replace(item, **nothing)

    return msgspec.structs.replace(
        whole, **{name: mapped(getattr(whole, name), lacking) for name in part.within}
    )


def _without_source(whole: Snapshot, random: Random) -> Snapshot:
    name = random.choice(list(Source))
    less = _with_state(whole, name, random.choice(MISSING))
    less = msgspec.structs.replace(less, **GIVES.get(name, {}))
    if name is Source.NODES and random.random() < 0.5:
        return msgspec.structs.replace(less, gpus=())
    if name in {Source.METRICS, Source.WINDOW}:
        nothing = {"window": None} | ({"metrics": None} if name is Source.METRICS else {})
        if name is Source.METRICS:
            less = _with_state(less, Source.WINDOW, SourceState.ABSENT)
        return _of_gpus(less, lambda gpu: msgspec.structs.replace(gpu, **nothing))
    return less


def _partial_source(whole: Snapshot, random: Random) -> Snapshot:
    """Some of the objects could not be read."""
    name = random.choice([source for source, gives in GIVES.items() if () in gives.values()])
    share = random.random()
    kept = {
        field: tuple(item for item in getattr(whole, field) if random.random() < share)
        for field, nothing in GIVES.get(name, {}).items()
        if nothing == () and field != "gangs"
    }
    return msgspec.structs.replace(_with_state(whole, name, SourceState.PARTIAL), **kept)


def _without_field(whole: Snapshot, random: Random, parts: Sequence[Part]) -> Snapshot:
    """One field of one kind of object is absent: in all of them, or in some."""
    share = random.choice((1.0, 1.0, 0.5, 0.1))
    return without(whole, random.choice(parts), lambda: random.random() < share)


def _without_label(whole: Snapshot, random: Random) -> Snapshot:
    """One label that nodes or pods have is on none of them."""
    field = random.choice(("nodes", "pods"))
    names = sorted({name for item in getattr(whole, field) for name in item.labels})
    if not names:
        return whole
    gone = random.choice(names)
    items = (
        msgspec.structs.replace(item, labels={k: v for k, v in item.labels.items() if k != gone})
        for item in getattr(whole, field)
    )
    return msgspec.structs.replace(whole, **{field: tuple(items)})


def _stale(whole: Snapshot, random: Random) -> Snapshot:
    """Samples are old, a metric is not collected, or the windows have holes."""
    share = random.choice((1.0, 0.5, 0.1))
    age = timedelta(minutes=random.uniform(11, 5000))
    metric = random.choice(msgspec.structs.fields(Metrics)).name
    figure = random.choice(
        [f.name for f in msgspec.structs.fields(Window) if f.name not in {"span", "coverage_ratio"}]
    )
    what = random.choice(("age", "metric", "figure", "coverage"))

    def older(gpu: Gpu) -> Gpu:
        if random.random() >= share:
            return gpu
        metrics, window = gpu.metrics, gpu.window
        if metrics is not None and what == "age" and metrics.sampled_at is not None:
            metrics = msgspec.structs.replace(metrics, sampled_at=metrics.sampled_at - age)
        if metrics is not None and what == "metric":
            metrics = msgspec.structs.replace(metrics, **{metric: None})
        if window is not None and what == "figure":
            nothing = () if figure == "xids" else None
            window = msgspec.structs.replace(window, **{figure: nothing})
        if window is not None and what == "coverage":
            window = msgspec.structs.replace(window, coverage_ratio=random.random() * 0.7)
        return msgspec.structs.replace(gpu, metrics=metrics, window=window)

    less = _of_gpus(whole, older)
    return _with_state(less, Source.METRICS, SourceState.STALE) if what == "age" else less


def _without_past(whole: Snapshot, random: Random) -> Snapshot:
    return msgspec.structs.replace(whole, past=Past())


def _with_state(whole: Snapshot, name: Source, state: SourceState) -> Snapshot:
    statuses = (msgspec.structs.replace(s, state=state) if s.name is name else s for s in whole.sources)
    return msgspec.structs.replace(whole, sources=tuple(statuses))


def _of_gpus(whole: Snapshot, change: Callable[[Gpu], Gpu]) -> Snapshot:
    return msgspec.structs.replace(whole, gpus=tuple(map(change, whole.gpus)))
