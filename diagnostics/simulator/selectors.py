"""Label and field selectors of list requests: equality only, which is all that clients of this cluster use."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from diagnostics.simulator.discovery import Resource
from diagnostics.simulator.pages import Item

_FIELDS = {
    "pods": ("metadata.name", "metadata.namespace", "spec.nodeName", "status.phase", "spec.restartPolicy"),
    "events": (
        "metadata.name",
        "metadata.namespace",
        "involvedObject.name",
        "involvedObject.kind",
        "reason",
        "type",
    ),
    "nodes": ("metadata.name", "spec.unschedulable"),
}
_ALWAYS = ("metadata.name", "metadata.namespace")
_TERM = re.compile(r"(?P<not>!?)(?P<key>[\w./-]+)(?:(?P<op>==|=|!=)(?P<value>[\w./:-]*))?")


def select(
    items: Sequence[Item], query: dict[str, str], resource: Resource, refuse: Callable[[str], Exception]
) -> list[Item]:
    """Those that match; raises what `refuse` makes of a selector that cannot be read."""
    labels = _terms(query.get("labelSelector", ""), refuse)
    fields = _terms(query.get("fieldSelector", ""), refuse)
    for key, _, _ in fields:
        if key not in _FIELDS.get(resource.name, _ALWAYS):
            raise refuse(f"field label not supported: {key}")
    if not labels and not fields:
        return list(items)
    found = []
    for item in items:
        body = msgspec.json.decode(item.body)
        own = body["metadata"].get("labels", {})
        if all(_matches(own.get(k), o, v) for k, o, v in labels) and all(
            _matches(_field(body, k), o, v) for k, o, v in fields
        ):
            found.append(item)
    return found


def _terms(text: str, refuse: Callable[[str], Exception]) -> list[tuple[str, str, str]]:
    terms = []
    for part in filter(None, text.split(",")):
        read = _TERM.fullmatch(part.strip())
        if read is None:
            raise refuse(
                f"unable to parse requirement: found '{part}', expected: in, notin, =, ==, !=, gt, lt"
            )
        bare = "absent" if read["not"] else "present"
        terms.append((read["key"], read["op"] or bare, read["value"] or ""))
    return terms


def _matches(value: str | None, operator: str, wanted: str) -> bool:
    match operator:
        case "present":
            return value is not None
        case "absent":
            return value is None
        case "!=":
            return (value or "") != wanted
    return (value or "") == wanted


def _field(body: Any, path: str) -> str | None:
    for part in path.split("."):
        body = body.get(part) if isinstance(body, dict) else None
    return None if body is None else str(body)
