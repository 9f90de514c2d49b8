"""Metadata that the API server keeps: ids, versions, owners, and who manages which field."""

import json
from datetime import datetime
from typing import Any

from diagnostics.simulator.identity import number_of
from diagnostics.simulator.timestamps import rfc3339
from diagnostics.simulator.workloads import Json

# How the items of a list are told apart, by the field that holds the list. Other lists are atomic.
_MERGE_KEYS: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "ports": ("containerPort", "protocol"),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
    "ownerReferences": ("uid",),
    "conditions": ("type",),
    "podIPs": ("ip",),
    "hostIPs": ("ip",),
}
_ATOMIC = frozenset(
    {"selector", "nodeSelector", "tolerations", "valueFrom", "nodeSelectorTerms", "containerStatuses"}
    | {"initContainerStatuses", "requiredDuringSchedulingIgnoredDuringExecution", "taints"}
)


def resource_version(*parts: object) -> str:
    return str(400_000 + number_of(9_000_000, "rv", *parts))


def metadata(
    name: str,
    namespace: str,
    uid: str,
    created: datetime,
    version: object,
    **more: Any,
) -> Json:
    """In the server's order; empty fields are left out. `version` is whatever changes with the object."""
    fields = {
        "name": name,
        "generateName": more.pop("generate_name", ""),
        "namespace": namespace,
        "uid": uid,
        "resourceVersion": resource_version(uid, version),
        "generation": more.pop("generation", 0),
        "creationTimestamp": rfc3339(created),
    } | more
    return {k: v for k, v in fields.items() if v}


def owner(api_version: str, kind: str, name: str, uid: str) -> list[Json]:
    reference = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid}
    return [reference | {"controller": True, "blockOwnerDeletion": True}]


def managed(manager: str, api_version: str, moment: datetime, fields: Any, subresource: str = "") -> Json:
    """One entry of `managedFields`; `fields` is a tree of `field_set`, or the same already encoded."""
    entry = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": api_version,
        "time": rfc3339(moment),
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    return entry | ({"subresource": subresource} if subresource else {})


def field_set(value: Any, field: str = "", depth: int = 0) -> Json:
    """The tree of `f:` and `k:` keys of the fields that a value has (Kubernetes documentation, "Server-Side
    Apply", field management)."""
    if field in _ATOMIC:
        return {}
    if isinstance(value, dict):
        tree = {f"f:{k}": field_set(v, k, depth + 1) for k, v in value.items()}
        return ({".": {}} | tree) if tree and depth > 2 else tree
    if isinstance(value, list) and field in _MERGE_KEYS:
        keys = _MERGE_KEYS[field]
        tree = {}
        for item in value:
            name = json.dumps({k: item[k] for k in keys if k in item}, separators=(",", ":"))
            inner = field_set(item, "", 1)
            tree["k:" + name] = {} if field == "ownerReferences" else {".": {}} | inner
        return tree
    return {}
