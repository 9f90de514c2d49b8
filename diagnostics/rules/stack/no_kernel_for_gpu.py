"""The program in a container has no code for the GPU that it runs on.

## Meaning
A CUDA program carries machine code for some GPU architectures, and perhaps PTX, from which the driver makes code for
newer ones. This one has neither for the GPU of its node: the GPU is newer than the build (Blackwell needs CUDA 12.8 and
PyTorch 2.7), or older than what it still supports (CUDA 13 dropped everything before Turing).

## Impact
The first kernel fails, or the framework warns and goes on without the GPU. It works on other nodes, so that the same
workload fails or runs depending on where it lands. Driver and GPU are well.

## Evidence
Messages of the CUDA runtime (error 209), of PyTorch, ptxas, nvcc and llama.cpp, with the architectures that they name;
the node's compute capability from labels or model. Without a message: the architectures of a `pytorch/pytorch` image,
or the image's CUDA against the GPU, for containers that crash.

## Not reported
Architectures that run the machine code of a lower one of the same major version (8.0 on 8.6 and 8.9, 10.0 on 10.3), so
that their absence from a list means nothing; TensorFlow's note that it compiles from PTX; ROCm images without such a
message; a program that works after all.

## References
https://developer.nvidia.com/cuda-gpus
https://docs.nvidia.com/cuda/blackwell-compatibility-guide/
https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/#gpu-feature-list
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject
from diagnostics.fixes import Fix, Risk, Step, StepKind, in_order, kubectl, steps
from diagnostics.limits import Limits
from diagnostics.rules.base import rule
from diagnostics.rules.stack.architectures import capability_of_node, first_toolkit, last_toolkit
from diagnostics.rules.stack.crashes import crashed
from diagnostics.rules.stack.cuda_compat import Version, version
from diagnostics.rules.stack.cuda_facts import Facts, facts_of, written_cuda
from diagnostics.rules.stack.cuda_images import runs_on, wheel_architectures
from diagnostics.rules.stack.heard import Heard, heard
from diagnostics.snapshot import Snapshot, Source
from diagnostics.text import listed

CAUSE, TOO_OLD = "no-kernels-for-gpu-architecture", "gpu-too-old-for-image"
_SIGNATURES = (
    "torch-arch-unsupported",
    "cuda-no-kernel-image",
    "cuda-arch-unknown",
    "cuda-requirement-unmet",
)
_RANK = {name: rank for rank, name in enumerate(_SIGNATURES)}
_SM = re.compile(r"(?:sm|compute)_(\d{1,2})(\d)[af]?\b")
_FIRST_TORCH = {(10, 0): "2.7 with CUDA 12.8", (12, 0): "2.7 with CUDA 12.8", (10, 3): "2.9 with CUDA 13.0"}
"""First PyTorch release whose wheels have code for a capability (release notes)."""


@rule(
    code="GPU204",
    slug="no-kernel-for-gpu",
    severity=Severity.CRITICAL,
    needs={Source.PODS},
    uses={Source.NODES, Source.LOGS, Source.EVENTS},
    hold=1,
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit]:
    """One hit per root owner: by what was said, else by the image against the node's GPU."""
    told: dict[Subject, list[Heard]] = defaultdict(list)
    for one in heard(snapshot, limits, _SIGNATURES):
        if _is_about_the_gpu(one):
            told[Subject.of_pod(one.pod)].append(one)
    for subject, found in told.items():
        found.sort(key=lambda one: (_RANK[one.name], one.pod.key))
        facts = facts_of(snapshot, found[0].pod, found[0].container)
        yield _hit(subject, facts, found)
    silent: dict[Subject, list[Facts]] = defaultdict(list)
    for pod, container in crashed(snapshot, limits):
        subject = Subject.of_pod(pod)
        facts = facts_of(snapshot, pod, container)
        if subject not in told and _cannot_run(facts):
            silent[subject].append(facts)
    for subject, all_facts in silent.items():
        yield _hit(subject, all_facts[0], (), tuple(one.pod.key for one in all_facts))


def _is_about_the_gpu(one: Heard) -> bool:
    """PyTorch also warns of a capability above its newest one that its machine code runs on all the same."""
    words = one.signal.words
    if one.name == "cuda-requirement-unmet":
        return words.get("key") == "arch"
    capability, most = version(words.get("capability")), version(words.get("most"))
    return not (capability and most and runs_on(capability, (most,)))


def _cannot_run(facts: Facts) -> bool:
    """By the architectures of the image's PyTorch, else by its toolkit, which can only be too old for machine code.

    An older toolkit's PTX may still be compiled for a newer GPU, so that alone proves nothing: only what CUDA dropped.
    """
    capability = capability_of_node(facts.node)
    if capability is None:
        return False
    built = wheel_architectures(facts.container.image)
    if built is not None:
        return not runs_on(capability, built)
    last = last_toolkit(capability)
    return facts.toolkit is not None and last is not None and facts.toolkit > last


def _hit(subject: Subject, facts: Facts, found: Sequence[Heard], keys: tuple[str, ...] = ()) -> Hit:
    first = found[0] if found else None
    pods = tuple(sorted({one.pod.key for one in found})) or keys
    nodes = {one.pod.node for one in found if one.pod.node} or {facts.pod.node or ""} - {""}
    named = _named(first)
    capability = named or capability_of_node(facts.node)
    built = _built(found) or wheel_architectures(facts.container.image)
    is_old = _is_older(capability, built, first, facts)
    gpu = facts.product or "the GPU"
    which = f" (compute capability {written_cuda(capability)})" if capability else ""
    evidence = [one.evidence for one in found[:3]] + list(facts.evidence())
    if capability:
        source = "the message" if named else "labels nvidia.com/gpu.compute, or the model"
        evidence.append(Evidence("Compute capability of the GPU", written_cuda(capability), source=source))
        if (since := first_toolkit(capability)) is not None:
            evidence.append(
                Evidence(
                    "First CUDA with code for it",
                    written_cuda(since),
                    source="CUDA release notes",
                )
            )
    if built:
        source = "the message" if _built(found) else "PyTorch's build settings for the image's CUDA"
        evidence.append(Evidence("Built for", listed([written_cuda(b) for b in built], 12), source=source))
    return Hit(
        subject=subject,
        cause=TOO_OLD if is_old else CAUSE,
        title=f"{subject}: its program has no code for {gpu}",
        summary=f"What runs in container {facts.container.name} was not built for {gpu}{which}. "
        + (
            "The build no longer supports so old a GPU."
            if is_old
            else "It needs a build that knows this GPU."
        )
        + " Driver and GPU are well.",
        evidence=tuple(evidence),
        confidence=Confidence.HIGH if first else Confidence.MEDIUM,
        fix=_fix(facts, capability, built, is_old=is_old),
        gpus=facts.pod.gpu_count * max(1, len(pods)),
        nodes=tuple(sorted(nodes)),
        pods=pods,
    )


def _named(first: Heard | None) -> Version | None:
    """The capability that a message names."""
    if first is None:
        return None
    words = first.signal.words
    match = _SM.search(words.get("architecture") or words.get("value") or "")
    if match:
        return int(match[1]), int(match[2])
    major, _, minor = words.get("capability", "").partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None


def _built(found: Sequence[Heard]) -> tuple[Version, ...]:
    text = next((one.signal.words["supported"] for one in found if "supported" in one.signal.words), "")
    return tuple((int(m[1]), int(m[2])) for m in _SM.finditer(text))


def _is_older(
    capability: Version | None, built: Sequence[Version] | None, first: Heard | None, facts: Facts
) -> bool:
    """The GPU is older than the build: below its oldest architecture, or dropped by its toolkit."""
    if first is not None and (
        first.name == "cuda-requirement-unmet" or "no longer supports" in first.signal.line
    ):
        return True
    if capability is None:
        return False
    least = version(first.signal.words.get("least")) if first else None
    if built or least:
        oldest: Version = min((*(built or ()), *((least,) if least else ())))
        return capability < oldest
    last = last_toolkit(capability)
    return last is not None and facts.toolkit is not None and facts.toolkit > last


def _fix(facts: Facts, capability: Version | None, built: Sequence[Version] | None, *, is_old: bool) -> Fix:
    pod, container = facts.pod, facts.container
    labels = "nvidia.com/gpu.product,nvidia.com/gpu.compute.major,nvidia.com/gpu.compute.minor"
    since = first_toolkit(capability) if capability else None
    torch = _FIRST_TORCH.get((capability[0], capability[1])) if capability else None
    if is_old:
        build = "an image whose build still supports this GPU"
        why = "CUDA 13 and the PyTorch builds on it start at Turing (7.5): CUDA 12.6 builds still serve older GPUs."
    else:
        build = f"an image of CUDA {written_cuda(since)} or newer" if since else "an image built for this GPU"
        why = f"PyTorch has code for it from {torch} on. " if torch else ""
        why += "Extensions that were compiled apart (flash-attn, xformers, own kernels) have to be built for it too."
    return Fix(
        summary=f"Use {build}",
        steps=in_order(
            steps.describe_pod(pod),
            steps.read_log(
                pod,
                container.name,
                previous=container.terminated is None and container.last_terminated is not None,
                expect="The architecture of the GPU, and those that the build has.",
            ),
            steps.look(
                title="See which GPU each node has",
                why="The same image may run on other nodes.",
                command=kubectl.kubectl("get", "nodes", "-L", labels),
                expect="The node of the evidence with another architecture than those where it runs.",
            ),
            Step(
                kind=StepKind.FIX,
                title=f"Use {build}",
                why=f"{why} The pods start anew with it.",
                risk=Risk.DISRUPTIVE,
                expect="`torch.cuda.get_arch_list()` of the new image names the GPU's architecture, or a lower one of "
                "the same major version.",
            ),
            Step(
                kind=StepKind.FIX,
                title="Or keep it on nodes whose GPU it was built for",
                why="A node affinity on nvidia.com/gpu.compute.major says which"
                + (f": {_majors(built)}." if built else "."),
                risk=Risk.DISRUPTIVE,
                expect="Its pods are placed on such nodes alone.",
            ),
            steps.verify_finding_gone(f"Container {container.name} runs its first kernel and stays."),
            steps.escalate(
                "the owner of the image",
                why="The image has to be built anew.",
                expect="A build whose list of architectures has this GPU's.",
            ),
        ),
    )


def _majors(built: Sequence[Version]) -> str:
    return listed(sorted({str(one[0]) for one in built}, key=int), 8)
