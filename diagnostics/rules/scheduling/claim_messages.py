"""GPU303 for claims that messages alone show: written for an API that is gone, or allocated and never prepared."""

from collections.abc import Iterator

from diagnostics.findings import Confidence, Evidence, Hit, Subject
from diagnostics.fixes import Fix, Risk, Step, StepKind, kubectl, manifests, steps
from diagnostics.limits import Limits
from diagnostics.rules.scheduling.claim_steps import manifest, see_claims, see_devices
from diagnostics.signatures import signals_in
from diagnostics.snapshot import Event, LogSignal, OwnerKey, Pod, Snapshot
from diagnostics.text import printable

MISMATCH = "dra-api-version-mismatch"
NO_PLACE = "mig-placement-unavailable"
NOT_PREPARED = "claim-not-prepared"
CAUSES = {
    "claim-names-nothing": MISMATCH,
    "claim-source-field": MISMATCH,
    "dra-api-not-served": MISMATCH,
    "mig-placement-unavailable": NO_PLACE,
}
"""Signature -> cause."""
EVENTS = frozenset({"FailedCreate", "FailedPrepareDynamicResources", "FailedCreatePodSandBox"})


def hits(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    """One per workload that such a message is about; of several messages the first."""
    told: set[Subject] = set()
    for event in snapshot.events:
        cause = _cause_of(event) if event.reason in EVENTS else ""
        subject = _subject_of(event, snapshot)
        pod = snapshot.pod_by_key.get(f"{event.namespace}/{event.name}") if event.kind == "Pod" else None
        age = snapshot.age(event.first_at or event.last_at)
        is_late = age is not None and age > limits.of(subject).values.pending_after
        if not cause or subject in told or not is_late or (pod is not None and _is_over(pod)):
            continue
        told.add(subject)
        source = f"event {event.reason} of {event.kind} {printable(event.name, 120)}"
        yield _hit(
            cause, subject, pod, Evidence("message", printable(event.message, 800), source=source), snapshot
        )
    for signal in snapshot.signals:
        cause = CAUSES.get(signal.signal, "")
        pod = _meant(signal, snapshot)
        if not cause or pod is None or Subject.of_pod(pod) in told:
            continue
        told.add(Subject.of_pod(pod))
        source = f"log of pod {printable(signal.pod_key, 160)}"
        yield _hit(
            cause, Subject.of_pod(pod), pod, Evidence("message", signal.line[:800], source=source), snapshot
        )


def _cause_of(event: Event) -> str:
    found = signals_in(event.message[:4000], namespace=event.namespace, pod=event.name, container="")
    named = next((CAUSES[one.signal] for one in found if one.signal in CAUSES), "")
    return named or (NOT_PREPARED if event.reason == "FailedPrepareDynamicResources" else "")


def _subject_of(event: Event, snapshot: Snapshot) -> Subject:
    if event.kind == "Pod":
        pod = snapshot.pod_by_key.get(f"{event.namespace}/{event.name}")
        return Subject("Pod", event.name, event.namespace, event.uid) if pod is None else Subject.of_pod(pod)
    maker = snapshot.workload_by_key.get((event.kind, event.namespace, event.name))
    owner = maker.owners[0] if maker is not None and maker.owners else None
    if owner is not None:
        return Subject.of_owner(
            OwnerKey(owner.kind, event.namespace, owner.name, owner.api_version, owner.uid)
        )
    return Subject(event.kind, event.name, event.namespace, event.uid)


def _is_over(pod: Pod) -> bool:
    """It runs by now, or is gone."""
    return pod.phase != "Pending" or pod.deletion_at is not None


def _meant(signal: LogSignal, snapshot: Snapshot) -> Pod | None:
    """The pod whose claim the message names, as far as it is known; else the pod that wrote it."""
    claim = snapshot.dra.claim_by_key.get(f"{signal.words.get('namespace')}/{signal.words.get('claim')}")
    keys = claim.pods if claim is not None else ()
    return next(
        (snapshot.pod_by_key[k] for k in keys if k in snapshot.pod_by_key), None
    ) or snapshot.pod_by_key.get(signal.pod_key)


_SAYS = {
    MISMATCH: (
        "its claims are written for an API of dynamic resource allocation that this cluster no longer has",
        "resource.k8s.io/v1alpha2, with `source:` in the pod, resourceClassName and parametersRef, was removed: the "
        "claim must be named directly in the pod, and ask through a DeviceClass. No GPU is lacking; a claim that is "
        "pending before a pod uses it is as it should be.",
    ),
    NO_PLACE: (
        "its claim was allocated, but the MIG instance cannot be created on the GPU",
        "The instances that the GPU has leave no place in which one of this profile may lie. The kubelet tries again "
        "for ever; the image and the runtime have no part in it.",
    ),
    NOT_PREPARED: (
        "its claim was allocated, but the DRA driver cannot prepare the devices on the node",
        "The pod has its node and devices on paper; its containers are not created until the driver has prepared them.",
    ),
}


def _hit(cause: str, subject: Subject, pod: Pod | None, fact: Evidence, snapshot: Snapshot) -> Hit:
    words, meaning = _SAYS[cause]
    return Hit(
        subject=subject,
        cause=cause,
        title=f"Not a GPU shortage: {printable(str(subject), 160)} cannot start: {words}",
        summary=meaning,
        evidence=(fact,),
        fix=_fix(cause, subject, pod, snapshot),
        confidence=Confidence.HIGH if cause != NOT_PREPARED else Confidence.MEDIUM,
        gpus=pod.gpu_count if pod is not None else 0,
        nodes=(pod.node,) if pod is not None and pod.node else (),
        pods=(pod.key,) if pod is not None else (),
    )


def _fix(cause: str, subject: Subject, pod: Pod | None, snapshot: Snapshot) -> Fix:
    namespace = subject.namespace
    shown = pod or Pod(namespace=namespace, name=subject.name)
    verify = steps.verify_finding_gone("The pods are made, and run.")
    if cause == MISMATCH:
        return Fix(
            "Write the claims for the API that is served",
            (_versions(), see_devices(), *_rewritten(shown, snapshot), verify),
        )
    if cause == NO_PLACE:
        return Fix(
            "Free a place on the GPU, or ask for a profile that fits",
            (see_claims(shown), _holders(), *_places(), verify, _driver()),
        )
    return Fix(
        "Find out what the DRA driver fails at", (see_claims(shown), _events(shown), verify, _driver())
    )


def _versions() -> Step:
    return steps.look(
        title="See which version of the claim API is served",
        why="Manifests must name a version that this server has; the alpha versions are gone since Kubernetes 1.31.",
        command=kubectl.kubectl("api-resources", "--api-group=resource.k8s.io"),
        expect="resourceclaims in version v1, or in a beta version on older servers.",
    )


def _rewritten(pod: Pod, snapshot: Snapshot) -> tuple[Step, ...]:
    """The claim in the version that is served; v1 where nothing was read but a message of a server without v1alpha2."""
    api = next((a.api_version for a in snapshot.apis if a.resource == "resourceclaims"), "resource.k8s.io/v1")
    name = next(iter((*snapshot.dra.class_by_name, "gpu.nvidia.com")))
    template = manifest(api, "ResourceClaimTemplate", pod.namespace, "one-gpu", name, 1)
    used = {
        "spec": {
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template["metadata"]["name"]}]
        }
    }
    return (
        Step(
            kind=StepKind.FIX,
            title="Write the claim anew, and name it directly in the pod",
            why="A DeviceClass and CEL selectors take the place of the old class and its parameters; in the pod "
            "`source:` is left out, and its field goes one level up.",
            risk=Risk.SAFE,
            manifest=f"{manifests.to_yaml(template)}---\n{manifests.to_yaml(used)}",
            expect="The server takes both; the claim is allocated when the pod is scheduled.",
        ),
    )


def _holders() -> Step:
    return steps.look(
        title="See which claims hold MIG instances of the GPU",
        why="Each profile may lie only at certain places; a place is free again when the claim that has it is gone.",
        command=kubectl.kubectl("get", "resourceclaims", "-A", "-o", "yaml"),
        expect="status.allocation of the claims on the same node, with the devices that they were given.",
    )


def _places() -> tuple[Step, ...]:
    return (
        Step(
            kind=StepKind.FIX,
            title="Ask for a profile that fits beside the instances that are there, or let other claims end first",
            why="Ending a pod whose instance lies in the way frees its place; only its owner can say that it may.",
            risk=Risk.SAFE,
            expect="The kubelet's next try prepares the claim, and the containers start.",
        ),
    )


def _events(pod: Pod) -> Step:
    return steps.look(
        title="Read the events of the pod",
        why="The kubelet repeats the driver's own words.",
        command=kubectl.events_of("pod", pod.name, pod.namespace),
        expect="FailedPrepareDynamicResources with the driver's reason.",
    )


def _driver() -> Step:
    return steps.escalate(
        "whoever runs the DRA driver",
        why="Where devices are free and still cannot be prepared, the driver's account of the GPU is wrong.",
        expect="The kubelet plugin's log on that node, and whether a newer driver accounts for places.",
    )
