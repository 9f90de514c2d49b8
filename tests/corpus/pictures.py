"""Turns the text of a recorded case into a snapshot: what its words say and nothing of its answer.

A log is the log of a failing GPU pod; `kubectl describe`, event and metric lines are read line by line.
"""

import re
from datetime import timedelta
from typing import Any

from diagnostics.signatures import signals_in
from diagnostics.snapshot import Container, Event, Metrics, Pod, Snapshot, Terminated
from tests.builders import NOW, ago, container, event, gpu, node, pod, snapshot
from tests.rules.memory.failing_pods import ended, looping

_AGE = re.compile(r"(\d+)([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def picture(kind: str, text: str) -> Snapshot:
    """The snapshot of one case; `kind` as in the case: log, metrics, events or describe."""
    return {"log": _log, "metrics": _metrics, "events": _events, "describe": _describe}[kind](text)


def _log(text: str) -> Snapshot:
    """A failing pod on a GPU that it has for itself."""
    failing = pod("case-0", containers=(looping(ended()),))
    told = signals_in(text, namespace=failing.namespace, pod=failing.name, container="main")
    return snapshot(
        node(), failing, gpu(holders=(failing.key,), metrics=None), signals=told, logs_read=(failing.key,)
    )


_SERIES = re.compile(r"^(?P<name>DCGM_\w+)\{(?P<labels>[^}]*)\} (?P<value>\S+)$", re.MULTILINE)


def _metrics(text: str) -> Snapshot:
    """Series as gauges of a ready pod's GPU; a listing of processes is what somebody saw in a failing pod's place."""
    series = list(_SERIES.finditer(text))
    if not series:
        return _log(text)
    labels = dict(re.findall(r'(\w+)="([^"]*)"', series[0]["labels"]))
    values = {s["name"]: float(s["value"]) for s in series}
    served = pod(labels["pod"], "serving")
    metrics = Metrics(
        sampled_at=NOW,
        memory_used_bytes=values["DCGM_FI_DEV_FB_USED"] * 2**20,
        memory_free_bytes=values["DCGM_FI_DEV_FB_FREE"] * 2**20,
        utilization_ratio=values["DCGM_FI_DEV_GPU_UTIL"] / 100,
    )
    return snapshot(node(), served, gpu(int(labels["gpu"]), holders=(served.key,), metrics=metrics))


def _since(text: str) -> timedelta:
    parts = _AGE.findall(text)
    return sum((timedelta(**{_UNITS[u]: int(n)}) for n, u in parts), timedelta())


_POD_LINE = re.compile(
    r"^\s*(?:pod/)?(\S+)\s+\d+/\d+\s+(\S+)\s+(\d+)(?: \((\S+) ago\))?\s+(\S+)$", re.MULTILINE
)
_EVENT = re.compile(
    r"^\s*(Warning|Normal)\s+(\w+)\s+(\S+)(?: \(x(\d+) over (\S+)\))?\s+kubelet\s+(.*)$", re.MULTILINE
)


def _events(text: str) -> Snapshot:
    row = _POD_LINE.search(text)
    assert row is not None
    name, restarts = row[1], int(row[3])
    events: list[Event] = []
    for found in _EVENT.finditer(text):
        fields: dict[str, Any] = {"type": found[1], "count": int(found[4] or 1)}
        fields["first_at"] = NOW - _since(found[5] or found[3])
        fields["last_at"] = NOW - _since(found[3])
        events.append(event(found[2], found[6], name, namespace="serving", **fields))
    box = re.search(r"Container (\S+) failed", text)
    assert box is not None
    restarted = container(
        box[1], restarts=restarts, running_since=NOW - _since(row[4] or "1m"), is_ready=False,
        last_terminated=Terminated(reason="Error", exit_code=137, finished_at=NOW - _since(row[4] or "1m")),
    )  # fmt: skip
    return snapshot(
        node(), pod(name, "serving", containers=(restarted,), created_at=NOW - _since(row[5])), *events
    )


_BOX = re.compile(r"^  (\S+):[ \t]*(?:#.*?(nvidia\.com/\S+): (\d+))?[ \t]*$", re.MULTILINE)


def _describe(text: str) -> Snapshot:
    """The pod's line as `kubectl get` prints it, then its init containers as `kubectl describe` does."""
    row = re.search(r"^\s*(\S+)\s+(\S+)\s+\d+/\d+\s+(\S+)\s+(\d+)\s+(\S+)$", text, re.MULTILINE)
    assert row is not None
    starts = list(_BOX.finditer(text))
    boxes = []
    for found, following in zip(starts, [*starts[1:], None], strict=True):
        part = text[found.end() : following.start() if following else len(text)]
        boxes.append(_box(found, part, is_init="Init Containers:" in text[: found.start()]))
    waiting = container("main", state="waiting", waiting_reason=row[3], running_since=None, is_ready=False)
    described: Pod = pod(
        row[2],
        row[1],
        phase="Pending",
        conditions=(),
        created_at=NOW - _since(row[5]),
        containers=(*boxes, waiting),
    )
    return snapshot(node(), described)


def _box(found: re.Match[str], part: str, *, is_init: bool) -> Container:
    told = dict(re.findall(r"^\s*(State|Reason|Exit Code):\s*(\S+)", part, re.MULTILINE))
    gpus = int(found[3] or 0)
    how = Terminated(reason=told["Reason"], exit_code=int(told["Exit Code"]), finished_at=ago(minutes=80))
    return container(
        found[1],
        gpus,
        state=told["State"].lower(),
        terminated=how,
        running_since=None,
        is_ready=False,
        is_init=is_init,
    )
