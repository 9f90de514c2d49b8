"""Device claims of a waiting pod that cannot be met because claim, template or class is not there."""

import re
from collections.abc import Sequence

from diagnostics.findings import Evidence
from diagnostics.rules.scheduling.board import Reading
from diagnostics.rules.scheduling.refusals import Refusal
from diagnostics.snapshot import Pod, Snapshot, Source
from diagnostics.snapshot.resource_claims import Demand
from diagnostics.text import listed, printable

_NO_CLASS = re.compile(r"device ?class \"?([\w.-]+)\"? (?:does not exist|not found)", re.IGNORECASE)
_NO_TEMPLATE = re.compile(r"resource ?claim ?template \"([^\"]{1,253})\".{0,120}not found", re.IGNORECASE)


def missing_object(pod: Pod, snapshot: Snapshot, words: Refusal | None) -> Reading | None:
    """A claim or a template that is not there; also from the words of scheduler and claim controller."""
    dra, source = snapshot.dra, snapshot.source(Source.CLAIMS)
    told = [
        e
        for e in snapshot.events_by_object.get(("Pod", pod.namespace, pod.name), ())
        if _is_refused(e.reason)
    ]
    said = " ".join((words.text if words else "", *(event.message[:1000] for event in told)))
    for name in pod.resource_claims:
        template = pod.claim_templates.get(name)
        knows = source.state.is_usable and "resourceclaims" not in dra.unread
        if knows and f"{pod.namespace}/{name}" in dra.claim_by_key:
            continue
        if template is not None:
            reading = _of_template(pod, name, template, snapshot, said)
            if reading is not None:
                return reading
        elif knows or f'"{name}" not found' in said:
            return Reading.told(
                "claim-missing",
                f"the resource claim {printable(name, 120)} that it names does not exist",
                Evidence(
                    "resource claim", printable(name, 120), source=f"spec.resourceClaims of pod {pod.key}"
                ),
                names=(name, *sorted(dra.class_by_name)),
            )
    match = _NO_CLASS.search(said)
    knows_classes = source.state.is_usable and "deviceclasses" not in dra.unread
    if match is None or (knows_classes and match[1] in dra.class_by_name):
        return None
    return _no_class(pod, match[1], *sorted(dra.class_by_name))


def _is_refused(reason: str) -> bool:
    return reason in {"FailedResourceClaimCreation", "FailedScheduling"}


def _of_template(pod: Pod, name: str, template: str, snapshot: Snapshot, said: str) -> Reading | None:
    """The claim that is to be made from a template is not there."""
    dra = snapshot.dra
    is_read = snapshot.source(Source.CLAIMS).state.is_usable and "resourceclaimtemplates" not in dra.unread
    is_there = f"{pod.namespace}/{template}" in dra.template_by_key
    match = _NO_TEMPLATE.search(said)
    if (is_read and not is_there) or (not is_read and match is not None and match[1] == template):
        return Reading.told(
            "claim-template-missing",
            f"the claim template {printable(template, 120)} that it names does not exist: its claim is not made",
            Evidence(
                "claim template", printable(template, 120), source=f"spec.resourceClaims of pod {pod.key}"
            ),
            names=(template, *sorted(dra.class_by_name)),
        )
    if is_read and "resourceclaims" not in dra.unread:
        return Reading.told(
            "claim-not-made",
            f"its claim {printable(name, 120)} has not been made from the template {printable(template, 120)}",
            Evidence(
                "claim template", printable(template, 120), source=f"spec.resourceClaims of pod {pod.key}"
            ),
            names=(template, *sorted(dra.class_by_name)),
        )
    return None


def missing_class(demands: Sequence[Demand], pod: Pod, snapshot: Snapshot) -> Reading | None:
    """A class that is not there; of alternatives, only when every one lacks its own."""
    known = snapshot.dra.class_by_name
    for demand in demands:
        for request in demand.requests:
            options = request.alternatives or (request,)
            if all(one.device_class not in known for one in options):
                return _no_class(pod, options[0].device_class, *sorted(known))
    return None


def _no_class(pod: Pod, name: str, *known: str) -> Reading:
    facts = [Evidence("device class", printable(name, 120), source=f"the claim of pod {pod.key}")]
    if known:
        shown = listed([printable(one, 80) for one in known], 8)
        facts.append(Evidence("device classes of the cluster", shown, source="DeviceClass objects"))
    words = f"the device class {printable(name, 120)} that its claim names does not exist"
    return Reading.told("device-class-missing", words, *facts, names=(name, *known))
