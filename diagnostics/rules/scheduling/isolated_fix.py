"""Guided fix for ranks in pods of one GPU: look at what NCCL uses, then put the ranks of a host into one pod."""

from collections.abc import Sequence
from typing import Any

from diagnostics.fixes import Fix, Risk, Step, StepKind, kubectl, steps
from diagnostics.rules.scheduling.owner_patch import in_words, owner_kind, patch_of_owner
from diagnostics.snapshot import Gang, Pod
from diagnostics.text import counted

GPU = "nvidia.com/gpu"
_BUILT_IN = frozenset({"Job", "StatefulSet", "Deployment"})


def gpus_per_pod(ranks: int, fitted: int) -> int:
    """The most GPUs per pod with which pods of equal size hold `ranks` ranks on hosts of `fitted` GPUs.

    Where no such size is above 1, a whole host's: the job then has a few ranks more.
    """
    size = max((size for size in range(2, fitted + 1) if ranks % size == 0), default=1)
    return size if size > 1 else max(1, min(fitted, ranks))


def isolated_fix(gang: Gang, placed: Sequence[Pod], fitted: int) -> Fix:
    ranks = max(gang.size or 0, len(placed))
    size = gpus_per_pod(ranks, fitted)
    return Fix(
        "Run the ranks of a host in one pod",
        (
            steps.look(
                title="See where the job's pods are, and what each asks for",
                why="Placement may have changed since: a restarted pod can land elsewhere.",
                command=kubectl.kubectl(
                    "get", "pods", "-n", gang.namespace, "-o", "wide", "--", *(p.name for p in placed[:16])
                ),
                expect="The pods and hosts named in the evidence.",
            ),
            steps.read_log(
                placed[0],
                expect="With NCCL_DEBUG=INFO, lines of channels to ranks on the same host: via NET means the network, "
                "via P2P that they reach each other after all. A line about libnccl-net.so that cannot be opened is no "
                "fault: NCCL then uses its own network code.",
            ),
            _one_pod(placed, ranks, size),
            steps.verify_finding_gone("The job's pods have as many GPUs as ranks on a host."),
        ),
    )


def _one_pod(placed: Sequence[Pod], ranks: int, size: int) -> Step:
    pod = placed[0]
    spec = _spec(pod, size)
    kind = owner_kind(pod)
    manifest = patch_of_owner(pod, spec) if kind in _BUILT_IN else ""
    pods = -(-ranks // size)
    return Step(
        kind=StepKind.FIX,
        title=f"Ask for {size} GPUs per pod, with {counted(pods, 'pod')} instead of {ranks}",
        why="Ranks in one container see each other's GPUs and its /dev/shm. Set the number of pods, and the ranks per "
        f"pod in the launcher (torchrun --nproc-per-node={size}, slotsPerWorker of an MPIJob), to match; CPU, memory "
        f"and the size of /dev/shm are now those of {size} ranks. Such a pod needs {size} free GPUs on one host. "
        "Starting again loses everything since the last checkpoint, so do it at the next start."
        + (" A Job's pod template cannot be changed: delete it and make it anew." if kind == "Job" else "")
        + in_words(pod, spec),
        risk=Risk.DISRUPTIVE,
        manifest=manifest,
        expect="Channel lines via P2P between the ranks of a pod, and shorter steps.",
    )


def _spec(pod: Pod, size: int) -> dict[str, Any]:
    """The pod spec's part: GPUs of the container that asks for them."""
    box = next((c for c in pod.containers if c.gpus and not c.is_init), pod.containers[0])
    amounts: dict[str, Any] = {"limits": {GPU: size}}
    if GPU in box.requests:
        amounts["requests"] = {GPU: size}
    return {"containers": [{"name": box.name, "resources": amounts}]}
