"""Turns the text of a recorded case about CUDA and the driver into a snapshot: what its words say."""

import re
from typing import Any

import msgspec
import yaml

from diagnostics.collect.wire.pods import PodConverter, PodWire
from diagnostics.signatures import signals_in
from diagnostics.snapshot import Node, Snapshot
from tests.builders import event, gpu, node, snapshot
from tests.rules.stack.failing_cuda import failing, looping, refused

_DRIVER = re.compile(r"Driver Version: ([\d.]+)\s+CUDA Version: ([\d.]+)")
_EVENT = re.compile(r"^\s*(Warning|Normal)\s+(\w+)\s+kubelet\s+(.*)\Z", re.MULTILINE | re.DOTALL)


def picture(kind: str, text: str, *, asks: bool = True) -> Snapshot:
    """The snapshot of one case; `kind`: events, log or manifest; `asks`: its container asks for a GPU."""
    told = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    host = _host(text)
    if kind == "events":
        found = _EVENT.search(told)
        assert found is not None
        shown = failing(refused("", "RunContainerError"))
        return snapshot(host, shown, event(found[2], found[3], type=found[1]))
    if kind == "manifest":
        return _applied(host, yaml.safe_load(told))
    pod = failing(looping(gpus=1 if asks else 0))
    signals = signals_in(told, namespace=pod.namespace, pod=pod.name, container="main", previous=True)
    return snapshot(host, pod, gpu(metrics=None), signals=signals, logs_read=(pod.key,))


def _host(text: str) -> Node:
    found = _DRIVER.search(text)
    if found is None:
        return node()
    return node(
        labels={
            "nvidia.com/cuda.driver-version.full": found[1],
            "nvidia.com/cuda.runtime-version.full": found[2],
        }
    )


def _applied(host: Node, body: dict[str, Any]) -> Snapshot:
    """The manifest's pod as the API shows it once it runs on the node."""
    since = "2026-06-01T10:00:00Z"
    statuses = [
        {"name": box["name"], "ready": True, "restartCount": 0, "state": {"running": {"startedAt": since}}}
        for box in body["spec"]["containers"]
    ]
    body["metadata"] |= {"namespace": "default", "uid": "uid-case"}
    body["spec"]["nodeName"] = host.name
    body["status"] = {"phase": "Running", "startTime": since, "containerStatuses": statuses}
    return snapshot(host, PodConverter()(msgspec.json.decode(msgspec.json.encode(body), type=PodWire)))
