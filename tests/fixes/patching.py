"""What a patch makes of an object, as an API server would, and what it takes away."""

import copy
from collections.abc import Iterator
from typing import Any

MERGED_BY = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "hostAliases": "ip",
}
"""Lists of a pod's spec that a strategic merge patch merges, and by what; it replaces the others (patchMergeKey in the
Kubernetes API reference)."""
NAMED_BY = MERGED_BY | {"replicatedJobs": "name", "workerGroupSpecs": "groupName", "tasks": "name"}
"""Lists whose items are told apart by a name, in custom kinds as well."""
REPLACED = frozenset({"command", "args"})
"""Lists that mean one thing as a whole."""


def merged(base: Any, patch: Any, *, is_strategic: bool, field: str = "") -> Any:
    """`base` with a strategic merge patch, or a JSON merge patch (RFC 7396), applied."""
    if isinstance(patch, dict):
        made = dict(base) if isinstance(base, dict) else {}
        for key, value in patch.items():
            if value is None:
                made.pop(key, None)
            else:
                made[key] = merged(made.get(key), value, is_strategic=is_strategic, field=key)
        return made
    key = MERGED_BY.get(field)
    if not (is_strategic and key and isinstance(patch, list) and isinstance(base, list)):
        return copy.deepcopy(patch)
    items = [copy.deepcopy(item) for item in base]
    for change in patch:
        place = next((i for i, item in enumerate(items) if item.get(key) == change.get(key)), None)
        if place is None:
            items.append(copy.deepcopy(change))
        else:
            items[place] = merged(items[place], change, is_strategic=True)
    return items


def edited(base: Any, operations: list[dict[str, Any]]) -> Any:
    """`base` with a JSON patch applied (RFC 6902: add, replace and remove)."""
    made = copy.deepcopy(base)
    for operation in operations:
        *path, last = (
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"].lstrip("/").split("/")
        )
        at = made
        for part in path:
            at = at[int(part)] if isinstance(at, list) else at[part]
        match operation["op"], at:
            case "add", list():
                at.insert(len(at) if last == "-" else int(last), operation["value"])
            case (("add" | "replace"), _):
                at[int(last) if isinstance(at, list) else last] = operation["value"]
            case "remove", _:
                del at[int(last) if isinstance(at, list) else last]
            case other:
                raise AssertionError(f"no such operation: {other}")
    return made


def taken_away(before: Any, after: Any, patch: Any, field: str = "") -> Iterator[str]:
    """Paths of what `before` has and `after` has not, though the patch does not say so with a null."""
    match before, after:
        case dict(), dict():
            for key, value in before.items():
                change = patch.get(key) if isinstance(patch, dict) else None
                is_meant = isinstance(patch, dict) and key in patch and change is None
                if key not in after:
                    if not is_meant:
                        yield key
                else:
                    yield from (f"{key}.{path}" for path in taken_away(value, after[key], change, key))
        case list(), list() if field not in REPLACED:
            key = NAMED_BY.get(field, "")
            for item in before:
                name = item.get(key) if isinstance(item, dict) else None
                same = next((a for a in after if name is not None and a.get(key) == name), None)
                if same is not None:
                    change = next(
                        (p for p in patch or () if isinstance(p, dict) and p.get(key) == name), None
                    )
                    yield from (f"{name}.{path}" for path in taken_away(item, same, change))
                elif item not in after:
                    yield f"[{name or item}]"


def with_diff(text: str, diff: str) -> str:
    """`text` with a unified diff applied; fails where the diff is of another text."""
    lines, made, at = text.rstrip("\n").split("\n"), [], 0
    head = diff.split("\n")
    assert head[0].startswith("--- ")
    assert head[1].startswith("+++ ")
    for line in head[2:]:
        if line.startswith("@@ "):
            start, _, count = line.split(" ")[1].removeprefix("-").partition(",")
            upto = int(start) - (0 if count == "0" else 1)
            made += lines[at:upto]
            at = upto
        elif line.startswith("+"):
            made.append(line[1:])
        else:
            assert lines[at] == line[1:], f"line {at + 1} is {lines[at]!a}, not {line[1:]!a}"
            at += 1
            if line.startswith(" "):
                made.append(line[1:])
    return "\n".join(made + lines[at:]) + "\n"
