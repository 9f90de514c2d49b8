"""Turns the text of a recorded case about a pod that waits into a snapshot: what its words say, not its answer."""

import json
import re
from typing import Any

import msgspec
import yaml

from diagnostics.collect.wire.pods import PodConverter, PodWire
from diagnostics.snapshot import Condition, Container, Pod, Snapshot, Workload
from tests.builders import ago, container, event, node, pending_pod, pod, snapshot

_MESSAGE = re.compile(r"FailedScheduling\s+(?:default-scheduler\s+)?(.*)$", re.MULTILINE)
_ROW = re.compile(
    r"^(?P<name>\S+)\s+\d+/\d+\s+(?P<status>\S+)\s+nvidia\.com/gpu: (?P<gpus>\d+)(?:\s+restarts (?P<restarts>\d+))?$",
    re.MULTILINE,
)


def waiting_picture(kind: str, text: str) -> Snapshot:
    """The snapshot of one case; `kind`: pods, manifest, words or refusal."""
    return {"pods": _pods, "manifest": _manifest, "words": _words, "refusal": _refusal}[kind](text)


def _pods(text: str) -> Snapshot:
    """One node whose GPUs are all held by the pods that are listed with one."""
    message = _MESSAGE.search(text)
    assert message is not None
    rows = list(_ROW.finditer(text))
    held = sum(int(row["gpus"]) for row in rows if row["status"] != "Pending")
    return snapshot(node("n1", held), *(_pod(row, message[1]) for row in rows))


def _pod(row: re.Match[str], message: str) -> Pod:
    gpus = int(row["gpus"])
    if row["status"] == "Pending":
        return pending_pod(row["name"], message, gpus=gpus)
    box: Container = container(gpus=gpus, restarts=int(row["restarts"] or 0))
    if row["status"] != "Running":
        box = msgspec.structs.replace(
            box, state="waiting", waiting_reason=row["status"], running_since=None, is_ready=False
        )
    return pod(row["name"], node="n1", containers=(box,))


def _manifest(text: str) -> Snapshot:
    """The manifest read as a pod that the scheduler has refused."""
    size = re.search(r"# node: nvidia\.com/gpu: (\d+) ; event: (.*)", text)
    assert size is not None
    document: dict[str, Any] = yaml.safe_load(text)
    document["metadata"] |= {"namespace": "research", "creationTimestamp": ago(minutes=20).isoformat()}
    document["status"] = {"phase": "Pending"}
    made = PodConverter()(msgspec.json.decode(json.dumps(document), type=PodWire))
    refused = Condition("PodScheduled", "False", "Unschedulable", size[2], ago(minutes=20))
    return snapshot(node("n1", int(size[1])), msgspec.structs.replace(made, conditions=(refused,)))


def _words(text: str) -> Snapshot:
    """What the scheduler said of one pod, on as many nodes as it counts."""
    message = _MESSAGE.search(text)
    assert message is not None
    total = re.search(r"0/(\d+) nodes", message[1])
    with_gpus = re.search(r"# GPU nodes: (\d+)", text)
    assert total is not None
    assert with_gpus is not None
    gpus = 0 if "asks for: cpu" in text else 1
    nodes = [node(f"n{i}", 8 if i < int(with_gpus[1]) else 0) for i in range(int(total[1]))]
    return snapshot(*nodes, pending_pod("waits-0", message[1], gpus=gpus))


def _refusal(text: str) -> Snapshot:
    """The API server's answer to the controller of a GPU pod."""
    said = json.loads(text)["message"]
    maker = Workload(
        kind="StatefulSet",
        namespace="research",
        name="maker",
        replicas=1,
        spec={"template": {"spec": {"containers": [{"name": "main"}]}}},
    )
    told = event(
        "FailedCreate", f"create Pod in StatefulSet maker failed error: {said}", "maker", kind="StatefulSet"
    )
    return snapshot(node(), told, workloads=(maker,))
