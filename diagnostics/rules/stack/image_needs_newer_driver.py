"""A container brings a CUDA that the driver of its node does not serve.

## Meaning
The CUDA runtime in the image needs a newer driver than the node has, the image's own compatibility libraries stand
before the driver's, or its kernels exist only as PTX of a newer toolkit. What counts is the driver: from CUDA 11 on a
toolkit runs on every driver that serves its major version (450.80.02, 525.60.13, 580.65.06), and a newer driver runs
every older toolkit.

## Impact
The container does not start, or its first CUDA call fails; it holds its GPUs meanwhile. Every new pod of this image
fails on nodes with this driver.

## Evidence
Messages in the container's log, status and events (nvidia-container-cli's requirement, error 35, 222, 803, 804, NGC's
and PyTorch's own words). Without a message: the image's toolkit, from its reference or environment, against the
node's driver label, for containers that fail. The node's labels and the GPU's model.

## Not reported
A toolkit newer than nvidia-smi's number within the same major version; an older image on a newer driver; images that
carry the compatibility package on data-center GPUs, unless they say that it does not help; ROCm and CPU images; images
whose toolkit is unknown. A missing driver is another rule's.

## References
https://docs.nvidia.com/deploy/cuda-compatibility/
https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/
https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html
"""

from collections import defaultdict
from collections.abc import Collection, Iterator

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject, Unjudged
from diagnostics.limits import Limits
from diagnostics.rules.base import rule
from diagnostics.rules.stack import cuda_images
from diagnostics.rules.stack.crashes import crashed
from diagnostics.rules.stack.cuda_compat import Verdict, written
from diagnostics.rules.stack.cuda_facts import Facts, facts_of, nodes_that_would_do, written_cuda
from diagnostics.rules.stack.driver_fix import driver_fix
from diagnostics.rules.stack.heard import Heard, heard
from diagnostics.snapshot import Snapshot, Source
from diagnostics.snapshot.gpu_intent import asks_for_gpu
from diagnostics.text import counted, listed

NEWER = "image-cuda-newer-than-driver"
UNSUPPORTED = "forward-compat-on-unsupported-gpu"
SHADOWED = "compat-library-shadows-driver"
PTX = "ptx-newer-than-driver"

CAUSES = {
    "cuda-compat-unsupported": UNSUPPORTED,
    "cuda-driver-mismatch": SHADOWED,
    "cuda-library-mismatch": SHADOWED,
    "cuda-requirement-unmet": NEWER,
    "torch-driver-too-old": NEWER,
    "ngc-driver-too-old": NEWER,
    "cuda-driver-insufficient": NEWER,
    "cuda-ptx-unsupported": PTX,
}
"""Signature -> cause, the most telling first."""
_RANK = {name: rank for rank, name in enumerate(CAUSES)}


@rule(
    code="GPU203",
    slug="image-needs-newer-driver",
    severity=Severity.CRITICAL,
    needs={Source.PODS},
    uses={Source.NODES, Source.LOGS, Source.EVENTS},
    caused_by=("nvml-failing",),
    hold=1,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit | Unjudged]:
    """One hit per root owner: by what was said, else by the image against the node."""
    told: dict[Subject, list[Heard]] = defaultdict(list)
    for one in heard(snapshot, limits, CAUSES):
        if _is_about_the_driver(one):
            told[Subject.of_pod(one.pod)].append(one)
    for subject, found in told.items():
        found.sort(key=lambda one: (_RANK[one.name], one.pod.key))
        yield _hit(snapshot, subject, found)
    yield from _by_image(snapshot, limits, told.keys())


def _is_about_the_driver(one: Heard) -> bool:
    """Error 35 is also what a container without any driver gets; `arch` is about the GPU."""
    if one.name == "cuda-requirement-unmet":
        return one.signal.words.get("key") != "arch"
    return one.name != "cuda-driver-insufficient" or asks_for_gpu(one.pod, one.container)


def _hit(snapshot: Snapshot, subject: Subject, found: list[Heard]) -> Hit:
    first = found[0]
    facts = facts_of(snapshot, first.pod, first.container)
    cause = CAUSES[first.name]
    if first.name == "cuda-driver-insufficient" and facts.compat_path and not facts.is_too_new:
        cause = SHADOWED
    pods = tuple(sorted({one.pod.key for one in found}))
    said = tuple(one.evidence for one in {one.signal.line: one for one in found[:4]}.values())
    title, summary = _words(cause, facts, first)
    return Hit(
        subject=subject,
        cause=cause,
        title=f"{subject}: {title}",
        summary=summary,
        evidence=(*said, *_told_numbers(first), *facts.evidence(), *_elsewhere(snapshot, facts)),
        confidence=_confidence(cause, facts, first),
        fix=driver_fix(snapshot, facts, cause),
        gpus=_gpus(snapshot, pods),
        nodes=_nodes(snapshot, pods),
        pods=pods,
    )


def _gpus(snapshot: Snapshot, keys: tuple[str, ...]) -> int:
    return sum(snapshot.pod_by_key[key].gpu_count for key in keys)


def _nodes(snapshot: Snapshot, keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({node for key in keys if (node := snapshot.pod_by_key[key].node)}))


def _confidence(cause: str, facts: Facts, first: Heard) -> Confidence:
    if first.name == "cuda-driver-insufficient":
        return Confidence.HIGH if facts.is_too_new or cause == SHADOWED else Confidence.MEDIUM
    if cause == SHADOWED and first.name == "cuda-driver-mismatch":
        return Confidence.HIGH if facts.compat_path else Confidence.MEDIUM
    return Confidence.HIGH


def _words(cause: str, facts: Facts, first: Heard) -> tuple[str, str]:
    box = facts.container.name
    driver = f" {written(facts.driver)}" if facts.driver else ""
    newest = f", which serves CUDA {written_cuda(facts.newest)}" if facts.newest else ""
    if cause == UNSUPPORTED:
        return (
            "its CUDA compatibility libraries do not work on this GPU",
            f"Container {box} uses the forward compatibility package, which NVIDIA supports on data-center GPUs "
            f"alone. Here the driver{driver} itself has to serve the image's CUDA{newest}.",
        )
    if cause == SHADOWED:
        return (
            "CUDA libraries of the image stand before the driver's",
            f"Container {box} loads a libcuda that does not belong to the node's kernel driver{driver}: compatibility "
            "libraries of the image, or the node's driver was changed without a reload.",
        )
    if cause == PTX:
        return (
            "its kernels are PTX of a newer toolkit than the driver can compile",
            f"Container {box} runs on the driver{driver} by minor version compatibility{newest}. PTX of a newer "
            "toolkit cannot be compiled there, so what has no machine code for this GPU fails.",
        )
    unsure = ""
    if first.name == "cuda-driver-insufficient" and facts.is_too_new is False:
        unsure = (
            " The image's reference alone would fit: a newer runtime inside it, or a driver library that is not "
            "handed to the container, prints the same."
        )
    return (
        "the image needs a newer NVIDIA driver than the node has",
        f"Container {box} brings a CUDA that the node's driver{driver} does not serve{newest}.{unsure}",
    )


def _told_numbers(first: Heard) -> Iterator[Evidence]:
    words = first.signal.words
    if first.name == "cuda-requirement-unmet":
        wanted = words.get("wanted", "an unknown version")
        yield Evidence(
            f"Required {words.get('key', 'of the image')}", f"at least {wanted}", source=first.source
        )
    elif first.name == "torch-driver-too-old" and words.get("found", "").isdecimal():
        number = int(words["found"])
        found = f"{number // 1000}.{number % 1000 // 10}"
        yield Evidence("CUDA that the driver serves, as PyTorch read it", found, source=first.source)
    elif words:
        values = ", ".join(f"{name} {value}" for name, value in sorted(words.items()))
        yield Evidence("Versions", values, source=first.source)


def _elsewhere(snapshot: Snapshot, facts: Facts) -> Iterator[Evidence]:
    verdict = facts.judged
    if verdict is None or not facts.is_too_new:
        return
    nodes = nodes_that_would_do(snapshot, verdict.needed)
    yield Evidence(
        "Nodes with a driver that would do",
        listed(nodes, 8),
        source="label nvidia.com/cuda.driver-version.full",
    )


def _by_image(snapshot: Snapshot, limits: Limits, known: Collection[Subject]) -> Iterator[Hit | Unjudged]:
    """Containers that crash and say nothing that we know, whose image cannot run on their node."""
    found: dict[Subject, list[Facts]] = defaultdict(list)
    for pod, container in crashed(snapshot, limits):
        subject = Subject.of_pod(pod)
        if subject in known:
            continue
        facts = facts_of(snapshot, pod, container)
        if facts.judged is not None:
            if _cannot_run(facts):
                found[subject].append(facts)
        elif pod.key not in snapshot.logs_read:
            yield Unjudged(subject, "its log was not read, and the image's CUDA or the driver is not known")
    for subject, all_facts in found.items():
        yield _static_hit(snapshot, subject, all_facts)


def _cannot_run(facts: Facts) -> bool:
    verdict = facts.judged
    if verdict is None:
        return False
    if verdict.verdict is Verdict.TOO_NEW:
        return True
    return verdict.verdict is Verdict.NEEDS_COMPAT and not cuda_images.has_compat_package(
        facts.container.image
    )


def _static_hit(snapshot: Snapshot, subject: Subject, found: list[Facts]) -> Hit:
    facts = found[0]
    pods = tuple(sorted({one.pod.key for one in found}))
    cuda = written_cuda(facts.toolkit or ())
    return Hit(
        subject=subject,
        cause=NEWER,
        title=f"{subject}: the image needs a newer NVIDIA driver than the node has",
        summary=f"Container {facts.container.name} crashes. Its image has CUDA {cuda}, which the driver of its node "
        f"does not serve in any way. {counted(len(pods), 'pod')} of it cannot work there.",
        evidence=(*facts.evidence(), *_elsewhere(snapshot, facts)),
        confidence=Confidence.MEDIUM,
        fix=driver_fix(snapshot, facts, NEWER),
        gpus=_gpus(snapshot, pods),
        nodes=_nodes(snapshot, pods),
        pods=pods,
    )
