"""What a step's manifest changes of a workload, as a unified diff against the workload's own manifest."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import yaml

from diagnostics.fixes import Fix, Step
from diagnostics.gangs import roles_of
from diagnostics.snapshot import Snapshot, Workload
from diagnostics.text import printable

CONTEXT = 3
"""Unchanged lines around each change."""
MOST_LINES = 200
"""A longer diff is no help: its manifest then stands alone (ours)."""
_ITEMS = {
    "containers": "name",
    "initContainers": "name",
    "replicatedJobs": "name",
    "tasks": "name",
    "workerGroupSpecs": "groupName",
}
"""Lists whose items a patch only changes, and what names an item."""
_MERGED = _ITEMS | {
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "topologySpreadConstraints": "topologyKey",
}
"""Lists that are merged, new items at the end; any other list is replaced (patchMergeKey in the Kubernetes API)."""
_OF_AN_OBJECT = {"metadata", "spec"}
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BY_SPEED: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_BY_SPEED):  # type: ignore[misc]
    """Without aliases, which would make a diff of what did not change."""

    def ignore_aliases(self, _: Any) -> bool:
        return True


class NoSuchItem(LookupError):
    """A patch names an item that the object does not have."""


def with_diffs(fix: Fix, subject: Any, snapshot: Snapshot) -> Fix:
    """`fix` with a diff at each step whose manifest changes a workload that the snapshot has the spec of.

    `subject`: kind, namespace and name of what lines without a kind belong to. A manifest of something new has no diff.
    """
    if not any(step.manifest and not step.diff for step in fix.steps):
        return fix
    made = tuple(_with_diff(step, subject, snapshot) if step.manifest else step for step in fix.steps)
    return msgspec.structs.replace(fix, steps=made)


def _with_diff(step: Step, subject: Any, snapshot: Snapshot) -> Step:
    lines: list[str] = []
    for body in yaml.load_all(step.manifest, Loader=_LOADER):
        if isinstance(body, dict):
            lines += _lines(body, subject, snapshot)
    return msgspec.structs.replace(step, diff="\n".join(lines)) if 0 < len(lines) <= MOST_LINES else step


def _lines(body: dict[str, Any], subject: Any, snapshot: Snapshot) -> list[str]:
    named = body.get("metadata") or {}
    key = (subject.kind, subject.namespace, subject.name)
    if "kind" in body:
        key = (body["kind"], named.get("namespace", ""), named.get("name", ""))
    workload = snapshot.workload_by_key.get(key)
    if workload is None or not workload.spec:
        return []
    if not _same_group(str(body.get("apiVersion", "")), workload.api_version):
        return []
    if "kind" in body or body.keys() <= _OF_AN_OBJECT:
        change = {k: v for k, v in body.items() if k in _OF_AN_OBJECT}
    else:
        change = _placed(body, workload)
    before = own_manifest(workload)
    try:
        after = merged(before, change)
    except NoSuchItem:
        return []
    return unified(before, after, f"{workload.kind} {workload.namespace}/{workload.name}")


def unified(before: Mapping[str, Any], after: Mapping[str, Any], name: str) -> list[str]:
    """Lines of a unified diff of two objects as YAML; empty where they are equal."""
    shown = printable(name, 240)
    one, other = (as_text(document).rstrip("\n").split("\n") for document in (before, after))
    return list(difflib.unified_diff(one, other, shown, f"{shown} (corrected)", n=CONTEXT, lineterm=""))


def as_text(document: Mapping[str, Any]) -> str:
    """An object as the YAML that diffs are made of."""
    return str(yaml.dump(dict(document), Dumper=_Dumper, sort_keys=False, width=100))


def merged(base: Any, change: Any, field: str = "") -> Any:
    """`base` with `change` applied: null removes, lists that have a key merge by it, all else is kept.

    Raises NoSuchItem where `change` names a container, a task or a role that `base` does not have.
    """
    if isinstance(change, dict):
        made = dict(base) if isinstance(base, dict) else {}
        for key, value in change.items():
            if value is None:
                made.pop(key, None)
            else:
                made[key] = merged(made.get(key), value, key)
        return made
    key_of = _MERGED.get(field)
    if key_of is None or not isinstance(change, list):
        return change
    items = list(base) if isinstance(base, list) else []
    for item in change:
        name = _value(item, key_of)
        place = next(
            (i for i, own in enumerate(items) if name is not None and _value(own, key_of) == name), None
        )
        if place is not None:
            items[place] = merged(items[place], item)
        elif field in _ITEMS:
            raise NoSuchItem(field)
        else:
            items.append(item)
    return items


def _value(item: Any, key: str) -> Any:
    return item.get(key) if isinstance(item, dict) else None


def own_manifest(workload: Workload) -> dict[str, Any]:
    """The workload as its own manifest has it."""
    head: dict[str, Any] = {"apiVersion": workload.api_version} if workload.api_version else {}
    metadata: dict[str, Any] = {"name": workload.name, "namespace": workload.namespace}
    if workload.labels:
        metadata["labels"] = dict(workload.labels)
    if workload.annotations:
        metadata["annotations"] = dict(workload.annotations)
    return head | {"kind": workload.kind, "metadata": metadata, "spec": msgspec.to_builtins(workload.spec)}


def _placed(pod_spec: dict[str, Any], workload: Workload) -> dict[str, Any]:
    """Lines of a pod's spec in the only template of the workload that has the containers they name; empty for none."""
    wanted = set(_names(pod_spec))
    found = [
        role
        for role in roles_of(workload.kind, workload.api_version, workload.spec)
        if role.path and wanted and wanted <= set(_names(role.template.get("spec")))
    ]
    if len(found) != 1 or any(isinstance(part, int) for part in found[0].path):
        return {}
    change: dict[str, Any] = {"spec": pod_spec}
    for part in reversed(found[0].path):
        change = {str(part): change}
    return {"spec": change}


def _names(pod_spec: Any) -> Iterator[str]:
    """Names of the containers of a pod's spec, whatever else stands where they should."""
    for key in ("containers", "initContainers"):
        items = pod_spec.get(key) if isinstance(pod_spec, dict) else None
        for item in items if isinstance(items, list) else ():
            yield str(_value(item, "name"))


def _same_group(one: str, other: str) -> bool:
    return not one or not other or one.rpartition("/")[0] == other.rpartition("/")[0]
