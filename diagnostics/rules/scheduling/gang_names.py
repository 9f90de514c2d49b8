"""Names that a Job's template calls its own pods by, as those of the JobSet or Volcano Job made from it.

Sources: Jobs (host name `<job>-<index>`), JobSet (`<set>-<replicated job>-<job index>-<pod index>.<subdomain>`, which
is the set's name unless it says otherwise), Volcano's plugins svc and env (`<job>-<task>-<index>.<job>`,
VC_TASK_INDEX).
"""

import copy
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from diagnostics.text import listed, printable

MOST_LINES = 6
_ADDRESSES = frozenset(
    {"MASTER_ADDR", "PET_MASTER_ADDR", "PET_RDZV_ENDPOINT", "RDZV_ENDPOINT", "DIST_INIT_ADDR"}
)
_ADDRESS = re.compile(r"--(?:rdzv[-_]endpoint|master[-_]addr|dist-init-addr)[= ]+[\"']?([^\s\"']+)")
_INDEX = re.compile(r"\bJOB_COMPLETION_INDEX\b")


class Hosts(NamedTuple):
    """How the pods of the new object are called."""

    name: str
    """Of the new object, and of the headless Service that its controller makes for it."""
    prefix: str
    """Of a pod, before its index."""
    variable: str = ""
    """The variable with a pod's index, where it is not that of a Job."""

    def of(self, index: str) -> str:
        return f"{self.prefix}-{index}.{self.name}"


class Moved(NamedTuple):
    """A template with its own names changed."""

    template: dict[str, Any]
    words: str
    """What has to be changed or looked at by hand, as sentences to be added."""


def moved(template: dict[str, Any], job: str, hosts: Hosts) -> Moved:
    """`template` of the Job `job` with pod names, and the index variable, as `hosts` has them."""
    made = copy.deepcopy(template)
    spec = made["spec"]
    subdomain = spec.pop("subdomain", "")
    spec.pop("hostname", None)
    old = (
        re.compile(rf"(?<![\w.-]){re.escape(job)}-(\d+)\.{re.escape(str(subdomain))}(?![\w-])")
        if subdomain
        else None
    )

    def renamed(text: Any) -> Any:
        if not isinstance(text, str):
            return text
        if old is not None:
            text = old.sub(lambda found: hosts.of(found[1]), text)
        return _INDEX.sub(hosts.variable, text) if hosts.variable else text

    left: list[str] = []
    for box in _containers(spec):
        for field in ("command", "args"):
            if isinstance(box.get(field), list):
                box[field] = [renamed(word) for word in box[field]]
        for one in _dicts(box.get("env")):
            if "value" in one:
                one["value"] = renamed(one["value"])
        left += _left(box, hosts)
    words = f" Its pods are called {printable(hosts.of('0'), 160)} and so on, and names of the old pods are changed to "
    words += f"that. A headless Service {printable(hosts.name, 80)} comes with it: delete an older one of this name "
    words += "first, since that selects the old pods."
    if left:
        words += f" Change by hand what is not the name of a new pod: {listed(left, MOST_LINES)}."
    if "job-name" in str({key: spec.get(key) for key in ("affinity", "topologySpreadConstraints")}):
        words += " Selectors with the label job-name match none of the new pods: change them too."
    return Moved(made, words)


def _left(box: dict[str, Any], hosts: Hosts) -> Iterator[str]:
    """Addresses that are none of the new pods', and fields that only a Job's pods have, each as its line."""
    name = printable(str(box.get("name", "")), 60)
    words = " ".join(str(word) for field in ("command", "args") for word in box.get(field) or ())
    for found in _ADDRESS.finditer(words):
        if not found[1].startswith(f"{hosts.prefix}-") and not found[1].startswith("$"):
            yield f"{printable(found[0], 160)} (container {name})"
    for variable in _dicts(box.get("env")):
        key, value = str(variable.get("name", "")), str(variable.get("value", ""))
        if key in _ADDRESSES and not value.startswith(f"{hosts.prefix}-"):
            yield f"{printable(key, 60)}={printable(value, 120)} (container {name})"
        if hosts.variable and "job-completion-index" in str(variable.get("valueFrom", "")):
            yield f"{printable(key, 60)} from the annotation job-completion-index, which is {hosts.variable} there"


def _containers(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for key in ("initContainers", "containers"):
        yield from _dicts(spec.get(key))


def _dicts(given: Any) -> list[dict[str, Any]]:
    return [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
