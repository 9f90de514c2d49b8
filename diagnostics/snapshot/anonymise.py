"""A snapshot with every name of its owner replaced, the same name by the same stand-in everywhere.

Kept: versions, counts, times, resource names, labels of Kubernetes, NVIDIA and the known schedulers, and the words of
the scheduler and the kubelet. Replaced: names of nodes, namespaces, pods, workloads, containers, volumes, images,
racks and zones, UIDs, GPU UUIDs, IP addresses, host names, and all other labels and annotations.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Any

import msgspec

from diagnostics.snapshot import Snapshot

_KEPT_NAMES = {
    "", "default", "kube-system", "kube-public", "kube-node-lease", "gpu-operator", "nvidia-gpu-operator",
    "default-scheduler", "kubelet", "kubernetes",
}  # fmt: skip
_GENERIC = {
    "gpu", "cpu", "memory", "pod", "pods", "node", "nodes", "job", "main", "app", "server", "worker", "master",
    "nvidia", "nvidia.com", "true", "false", "data", "cache", "train", "trainer", "default", "none",
}  # fmt: skip
"""Words that name nobody and stand in resource names and messages."""
_KEPT_KEYS = re.compile(
    r"(^|\.)(kubernetes\.io|k8s\.io|x-k8s\.io|nvidia\.com|sigs\.k8s\.io|volcano\.sh|ray\.io|gpuhealth\.io"
    r"|kubeflow\.org|cloud\.google\.com|k8s\.aws|oraclecloud\.com|coreweave\.cloud|azure\.com)/"
)
_KEPT_VALUES = re.compile(
    r"^(feature\.node\.kubernetes\.io|kubernetes\.io/(arch|os)|node\.kubernetes\.io|nvidia\.com|gpuhealth\.io)/?"
)
_UUID = re.compile(r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_IPV4 = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


def anonymise(snapshot: Snapshot) -> Snapshot:
    """A copy of `snapshot` fit to be shown to strangers; relations between objects stay intact."""
    names = _names(snapshot)
    tree = msgspec.msgpack.decode(msgspec.msgpack.encode(snapshot))
    past = {field: _by_name(value, names) for field, value in tree.pop("past", {}).items()}
    return msgspec.convert({**_replaced(tree, names), "past": past}, Snapshot)


def _digest(text: str, length: int = 6) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def _names(snapshot: Snapshot) -> dict[str, str]:
    """Every name that identifies its owner -> stand-in; stable within one snapshot."""
    found: dict[str, str] = {}

    def add(kind: str, values: list[str]) -> None:
        fresh = sorted({v for v in values if v not in _KEPT_NAMES and v not in found})
        width = len(str(len(fresh)))
        for number, value in enumerate(fresh, 1):
            found[value] = f"{kind}-{number:0{width}}"

    pods = snapshot.pods
    add("node", [n.name for n in snapshot.nodes] + [p.node or "" for p in pods])
    add("namespace", [n.name for n in snapshot.namespaces] + [p.namespace for p in pods])
    add("namespace", [w.namespace for w in snapshot.workloads])
    add("workload", [w.name for w in snapshot.workloads] + [p.root.name for p in pods if p.root])
    add("workload", [w.name for w in snapshot.queued] + [g.name for g in snapshot.pod_groups])
    add("queue", [x for q in snapshot.queues for x in (q.name, q.parent, *(f.name for f in q.flavors))])
    remembered = [key.split("/") for key in (*snapshot.past.memory_peaks, *snapshot.past.host_peaks)]
    for place, kind in enumerate(("namespace", "workload", "container"), 1):
        add(kind, [parts[place] for parts in remembered if 3 <= len(parts) <= 4 and place < len(parts)])
    add("workload", [o.name for p in pods for o in p.owners] + [s.name for s in snapshot.services])
    add("pod", [p.name for p in pods] + [e.name for e in snapshot.events])
    add("claim", [c.name for c in snapshot.dra.claims] + [t.name for t in snapshot.dra.templates])
    add("claim", [name for p in pods for name in p.resource_claims])
    add("claim", [name for p in pods for name in p.claim_templates.values()])
    add("class", [one.name for one in snapshot.dra.classes if "." not in one.name])
    add("container", [c.name for p in pods for c in p.containers])
    add("volume", [x for p in pods for v in p.volumes for x in (v.name, v.claim)])
    storage, policy = snapshot.storage, snapshot.policy
    add("volume", _named(storage.claims) + _named(storage.volumes))
    classes: tuple[Iterable[Any] | None, ...] = (
        storage.classes,
        policy.priority_classes,
        policy.runtime_classes,
    )
    add("class", [name for found in classes for name in _named(found)])
    add("class", [c.provisioner for c in storage.classes or () if not c.is_static])
    rules: tuple[Iterable[Any] | None, ...] = (
        policy.quotas, policy.limit_ranges, policy.network_policies, policy.budgets, policy.endpoint_slices,
    )  # fmt: skip
    add("rule", [name for found in rules for name in _named(found)])
    add("image", [c.image for p in pods for c in p.containers])
    add("place", [x for n in snapshot.nodes for x in (n.rack, n.zone, n.nvlink_domain) if x])
    add("cluster", [snapshot.cluster, snapshot.cluster_id])
    labels = [node.labels for node in snapshot.nodes] + [pod.labels for pod in pods]
    labels += [w.labels for w in snapshot.workloads] + [n.labels for n in snapshot.namespaces]
    for labelled in labels:
        for key, value in labelled.items():
            if not _KEPT_KEYS.search(key):
                found.setdefault(key, f"label-{_digest(key)}")
            if not _KEPT_VALUES.search(key) and value not in _KEPT_NAMES:
                found.setdefault(value, f"value-{_digest(value)}")
    return {name: stand_in for name, stand_in in found.items() if name not in _GENERIC and len(name) > 2}


def _named(found: Iterable[Any] | None) -> list[str]:
    return [one.name for one in found or ()]


def _replaced(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, str):
        return _text(value, names)
    if isinstance(value, list):
        return [_replaced(item, names) for item in value]
    if isinstance(value, dict):
        return {
            names.get(key, key) if isinstance(key, str) else key: _dict_value(key, item, names)
            for key, item in value.items()
        }
    return value


def _by_name(value: Any, names: dict[str, str]) -> Any:
    """What is remembered under slots and workloads: names of several parts."""
    if not isinstance(value, dict):
        return _replaced(value, names)
    return {_text(key, names): _replaced(item, names) for key, item in value.items()}


def _dict_value(key: Any, value: Any, names: dict[str, str]) -> Any:
    if key == "annotations" and isinstance(value, dict):
        return {k: v for k, v in value.items() if str(k).startswith("gpuhealth.io/")}
    if isinstance(key, str) and isinstance(value, str) and _KEPT_VALUES.search(key):
        return value
    return _replaced(value, names)


def _text(text: str, names: dict[str, str]) -> str:
    if text in names:
        return names[text]
    text = _UUID.sub(lambda m: _fake_uuid(m.group()), text)
    text = _IPV4.sub(lambda m: f"192.0.2.{int(_digest(m.group(), 4), 16) % 256}", text)
    return _NAME.sub(lambda m: _word(m.group(), names), text)


def _word(word: str, names: dict[str, str]) -> str:
    """A name inside a sentence or a path; dotted and dashed words are replaced part by part.

    `falcon-0.falcon` and `falcon-7d9c5-x2x4q` (a pod that is gone) must not show `falcon`.
    """
    if word in names:
        return names[word]
    if "." in word:
        return ".".join(_word(part, names) for part in word.split("."))
    parts, found = word.split("-"), []
    while parts:
        size = next((n for n in range(len(parts), 0, -1) if "-".join(parts[:n]) in names), 0)
        found.append(names["-".join(parts[:size])] if size else parts[0])
        parts = parts[max(1, size) :]
    return "-".join(found)


def _fake_uuid(uuid: str) -> str:
    digest = _digest(uuid.lower(), 32)
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))
