"""What to do about each cause of a CUDA out-of-memory error: titles, plain words and guided fixes."""

from collections.abc import Callable

import msgspec

from diagnostics.fixes import Fix, Risk, Step, StepKind, kubectl, mildest_first, steps
from diagnostics.fixes.rolling import old_pod_first
from diagnostics.fixes.sharing import divided, larger_slice
from diagnostics.fixes.stopping import stop_owner
from diagnostics.mig_profiles import profile_in
from diagnostics.rules.memory import changes
from diagnostics.rules.memory import oom_numbers as oom
from diagnostics.rules.memory.failing import Failure
from diagnostics.rules.memory.oom_arguments import where_sizes_are
from diagnostics.rules.memory.oom_numbers import Verdict, Whose
from diagnostics.snapshot import Snapshot
from diagnostics.text import printable

MOST_PROCESSES = 2
"""Processes that a fix looks up."""

TITLES = {
    oom.SHORTAGE: "the model needs more memory than the GPU has",
    oom.FRAGMENTED: "the allocator's cache is fragmented",
    oom.OTHER_PROCESS: "another process holds GPU memory",
    oom.ORPHANS: "leftover processes hold the GPU's memory",
    oom.SINGLE_REQUEST: "one request is as large as the GPU",
    oom.CAPPED: "the process is capped below the GPU's memory",
    oom.OUTSIDE: "memory outside PyTorch's allocator",
    oom.MIG_TOO_SMALL: "the MIG instance is smaller than the need",
    oom.VGPU_LIMIT: "the pod's share of GPU memory is used up",
    oom.KV_CACHE: "the KV cache does not fit",
    oom.BUDGET_TOO_HIGH: "the memory budget is larger than what is free",
    oom.BATCH: "the batch is larger than GPU memory allows",
    oom.CUDNN_STARVED: "the framework took the memory that cuDNN needs",
    oom.FLOAT32: "the weights are loaded in float32",
    oom.UNKNOWN: "the log does not say why",
}


def title_of(verdict: Verdict) -> str:
    """The cause in a title; of another process, whose it is where that is known."""
    if verdict.cause == oom.OTHER_PROCESS:
        return _TITLES_BY_OWNER[verdict.whose]
    return TITLES[verdict.cause]


_TITLES_BY_OWNER = {
    Whose.OTHER_PODS: "pods that share the GPU hold its memory",
    Whose.OWN: "a second process of its own pod holds GPU memory",
    Whose.OUTSIDE: "a process outside its pod holds GPU memory",
    Whose.OPEN: TITLES[oom.OTHER_PROCESS],
}

MEANINGS = {
    oom.SHORTAGE: "The model, its activations or its cache do not fit this GPU; settings of the allocator do not "
    "change that, although the message always suggests them.",
    oom.FRAGMENTED: "Enough memory is reserved, but in pieces too small for the request; the model itself fits.",
    oom.OTHER_PROCESS: "This process could not have the whole GPU; its own use may be as intended.",
    oom.ORPHANS: "Processes that nobody needs any more still live and hold the memory; a dead process would have given "
    "it back.",
    oom.SINGLE_REQUEST: "No GPU of this size can serve it, however empty: batch, sequence length or a wrong dtype.",
    oom.CAPPED: "The GPU may have room; the program set a limit for itself.",
    oom.OUTSIDE: "Communication buffers, library workspaces or CUDA graphs take what the framework counts on.",
    oom.MIG_TOO_SMALL: "The pod owns a part of the card; the rest of the card is not available to it.",
    oom.VGPU_LIMIT: "The limit is the pod's share, not the card: neither the driver nor the GPU is broken.",
    oom.KV_CACHE: "The weights fit, but the memory left for the KV cache is too small for one full request.",
    oom.BUDGET_TOO_HIGH: "The server plans with more of the GPU than a context and the driver leave free.",
    oom.BATCH: "The model itself fits; so many requests or tokens at once do not.",
    oom.CUDNN_STARVED: "TensorFlow and JAX reserve most of the GPU at start; what the library needs for itself is left "
    "over or not. Neither its version nor the image is broken.",
    oom.FLOAT32: "Four bytes per value instead of two: weights and KV cache are twice as large as in 16 bits.",
    oom.UNKNOWN: "GPU memory ran out, but the message carries no numbers that tell the causes apart.",
}


def fix_for(verdict: Verdict, failure: Failure, snapshot: Snapshot) -> Fix:
    """Diagnose read-only, then the cause's own fix, then verify and escalate."""
    pod, container = failure.pod, failure.container
    read = steps.read_log(
        pod, container.name, previous=failure.is_previous or (verdict.signal is not None and verdict.signal.previous),
        expect="The out-of-memory message of the evidence, and the first error before it.",
    )  # fmt: skip
    edit = _EDITS.get(verdict.cause)
    own = [edit] if edit else _OWN.get(verdict.cause, _unknown)(verdict, failure)
    if verdict.cause in _SIZED:
        own = [msgspec.structs.replace(s, why=f"{s.why} {where_sizes_are(container)}") for s in own]
    summary = own[-1].title if own[-1].kind is StepKind.FIX else own[0].title
    return Fix(
        summary=summary,
        steps=mildest_first(
            read,
            *([stop_owner(pod)] if failure.is_loop else []),
            *old_pod_first(own, pod, snapshot),
            *_of_the_node(verdict, failure, snapshot),
            steps.verify_finding_gone(
                f"Container {container.name} runs for a whole load cycle without the message."
            ),
            _escalation(verdict, failure),
        ),
    )


def _escalation(verdict: Verdict, failure: Failure) -> Step:
    whose = verdict.whose if verdict.cause == oom.OTHER_PROCESS else None
    if whose is Whose.OWN:
        return steps.escalate(
            "the owner of the workload",
            why="Which processes the container starts, and on which GPU, is the application's choice.",
            expect="A start that puts one process on this GPU, or gives each its share.",
        )
    if whose is Whose.OTHER_PODS:
        return steps.escalate(
            "the owners of the pods on this GPU",
            why="How much each may take is to be agreed among them; the driver divides nothing.",
            expect="Shares that add up to less than the GPU, or a GPU of its own for this workload.",
        )
    if whose in (Whose.OUTSIDE, Whose.OPEN):
        return steps.escalate(
            f"whoever runs node {failure.pod.node}" if failure.pod.node else "whoever runs the node",
            why="A process that Kubernetes did not start, or that outlived its pod, is seen and ended on its node.",
            expect="Whose the process is; once it has ended, nothing of the GPU is in use while this pod is down.",
        )
    return steps.escalate(
        "the owner of the workload",
        why="Batch size, sequence length and precision are the application's choice.",
        expect="A change of the job, or the request for a larger GPU.",
    )


def _of_the_node(verdict: Verdict, failure: Failure, snapshot: Snapshot) -> tuple[Step, ...]:
    """Another division of the node's GPUs, where the present one is what is too small or divides nothing."""
    node = snapshot.node_by_name.get(failure.pod.node or "")
    if node is None:
        return ()
    if verdict.cause == oom.MIG_TOO_SMALL:
        named = [*failure.container.gpus, node.labels.get("nvidia.com/gpu.product", "")]
        held = [g.mig_profile or "" for g in snapshot.gpus_by_pod.get(failure.pod.key, ())]
        own = next((p for name in (*held, *named) if (p := profile_in(name))), None)
        return larger_slice(node, own, snapshot) if own else ()
    if verdict.cause == oom.OTHER_PROCESS and verdict.whose in (Whose.OTHER_PODS, Whose.OPEN):
        return divided(node, snapshot)
    return ()


def _edit(title: str, why: str, expect: str) -> Step:
    """A change that only the owner of the program can make."""
    return Step(kind=StepKind.FIX, title=title, why=why, risk=Risk.DISRUPTIVE, expect=expect)


_EDITS = {
    oom.SHORTAGE: _edit(
        "Make the job smaller, or spread it over more or larger GPUs",
        "Smaller batch or sequence, activation checkpointing, 16-bit or quantised weights; for one model over "
        "several GPUs tensor parallelism, or sharded training (ZeRO stage 3, FSDP). The freed amount has to exceed "
        "what was missing, not only the last request.",
        "The highest allocated memory stays below the GPU's total.",
    ),
    oom.SINGLE_REQUEST: _edit(
        "Make the request itself smaller",
        "Look for the tensor that the traceback allocates: batch times sequence times vocabulary, an attention "
        "matrix without flash attention, or float32 where 16 bits were meant.",
        "The largest single allocation is well below the GPU's memory.",
    ),
    oom.CAPPED: _edit(
        "Raise the memory fraction that the program sets for itself",
        "set_per_process_memory_fraction or its like limits the process; only raise it where no other process "
        "relies on the rest of the GPU.",
        "The cap in the message is gone or above the need.",
    ),
    oom.OUTSIDE: _edit(
        "Leave more room for libraries",
        "Lower the framework's fraction (gpu_memory_utilization, XLA_PYTHON_CLIENT_MEM_FRACTION), or the buffers "
        "of NCCL, cuBLAS workspaces and CUDA graphs.",
        "Process memory minus allocated and reserved memory shrinks, or the rest fits.",
    ),
    oom.BUDGET_TOO_HIGH: _edit(
        "Lower gpu_memory_utilization to what is free at start",
        "The value is a share of the GPU's TOTAL memory; driver and context take some of it before the server "
        "starts.",
        "The server starts.",
    ),
    oom.BATCH: _edit(
        "Lower how much the server takes on at once",
        "The limit of concurrent sequences or of tokens per prefill: max_num_seqs and max_num_batched_tokens (vLLM), "
        "--max-running-requests and --chunked-prefill-size (SGLang), --max-batch-prefill-tokens (TGI). In "
        "training, the "
        "batch size with gradient accumulation instead.",
        "The highest load passes without the message.",
    ),
    oom.FLOAT32: _edit(
        "Load the weights in 16 bits",
        "--dtype bfloat16 (or float16 on GPUs before Ampere) for servers, dtype=torch.bfloat16 where the program loads "
        "the model; older versions of Transformers load float32 unless they are told.",
        "Weights and KV cache take half of what they took.",
    ),
}
"""Causes for which it is all that there is to do."""


def _holders(failure: Failure) -> Step:
    return steps.see_pods_on_node(failure.pod.node) if failure.pod.node else steps.describe_pod(failure.pod)


def _fragmented(verdict: Verdict, failure: Failure) -> list[Step]:
    # torch before 2.9 knows only the old name, later versions still honour it (reference: PyTorch allocator
    # settings).
    return [
        changes.set_environment(
            failure.pod,
            failure.container,
            {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
            title="Let the allocator grow its segments",
            why="Expandable segments (PyTorch 2.1 or newer on Linux) avoid the pieces; the setting is read once, at "
            "start. If the program must avoid it (some CUDA graph pools), allocate the largest buffer first and keep "
            "shapes constant, or set max_split_size_mb.",
            expect="Reserved but unallocated memory stays small at the same load.",
        )
    ]


_SIZED = {oom.SHORTAGE, oom.SINGLE_REQUEST, oom.BATCH, oom.KV_CACHE}
"""Causes whose fix is a smaller batch or sequence."""

_WHOSE = {
    Whose.OTHER_PODS: "Time-slicing and MPS do not divide memory: servers on one GPU need budgets that add up to less "
    "than one (gpu_memory_utilization, per-process fractions).",
    Whose.OWN: "The memory ends with the container, so a second process that the container itself starts has it: a "
    "second rank or worker on the same device index, or a server beside the trainer.",
    Whose.OUTSIDE: "The memory stays while the pod is down and no other pod holds the GPU: a process that Kubernetes "
    "did not place, or one that outlived its pod, has it.",
    Whose.OPEN: "Where the GPU is shared, time-slicing and MPS do not divide memory. Where it is not, a second process "
    "of the same pod or one outside Kubernetes has it; the cgroup tells which.",
}


def _other_process(verdict: Verdict, failure: Failure) -> list[Step]:
    return [
        *([_own_processes(failure)] if verdict.whose is Whose.OWN else [_holders(failure)]),
        *([] if verdict.whose is Whose.OWN else _cgroups(verdict, failure)),
        _edit(
            "Give each process its share of the GPU, or a GPU of its own",
            _WHOSE[verdict.whose],
            "At start nearly all of this process' share is free.",
        ),
    ]


def _own_processes(failure: Failure) -> Step:
    """No process of the message is looked up: it ended with its container, and the next run has another number."""
    words = " ".join((*failure.container.command, *failure.container.args))
    told = f"`{printable(words, 160)}`" if words else "the image's own command"
    return steps.look(
        title=f"See what container {failure.container.name} starts",
        why=f"It runs {told}. The process that the message names ended with its container: its number says nothing "
        "any more, the next run's has another.",
        command=kubectl.get_yaml("pod", failure.pod.name, failure.pod.namespace),
        expect="In command, args and env: more ranks or workers than GPUs (nproc_per_node, workers, LOCAL_RANK), or a "
        "script that starts a server beside the trainer.",
    )


def _cgroups(verdict: Verdict, failure: Failure) -> list[Step]:
    """Where the PIDs that the message names belong: in a pod NVML reports the host's."""
    has_ended = failure.ended is not None
    which = " of the run that ended" if has_ended else ""
    node, pids = failure.pod.node, sorted(verdict.numbers.others) if verdict.numbers else []
    if node is None:
        return []
    uid = failure.pod.uid
    return [
        Step(
            kind=StepKind.DIAGNOSE,
            title=f"See on node {node} to which pod process {pid}{which} belongs",
            why="The message names processes by the host's numbers, and a process' cgroup carries the UID of its pod "
            "(with - or _). A process that has ended is gone from there: where this one is, take the number from the "
            "next message. The debug pod is privileged: delete it afterwards.",
            risk=Risk.SAFE,
            command=kubectl.kubectl(
                "debug", f"node/{node}", "-it", "--image=busybox:1.36", "--profile=sysadmin", "--",
                "chroot", "/host", "cat", f"/proc/{pid}/cgroup",
            ),
            expect=f"`kubepods` with {uid or 'the UID of this pod'}: this pod; with another UID: that pod; without "
            "`kubepods`: outside Kubernetes. `No such file`: it has ended.",
        )
        for pid in pids[:MOST_PROCESSES]
        if pid.isdigit()
    ]  # fmt: skip


def _orphans(verdict: Verdict, failure: Failure) -> list[Step]:
    pod = failure.pod
    is_bare = pod.root is None or pod.root.kind == "Pod"
    again = "; it has no owner, so create it anew from its manifest" if is_bare else ""
    return [
        _holders(failure),
        Step(
            kind=StepKind.FIX,
            title=f"Delete pod {pod.name}, which ends the processes left in it{again}",
            why="The driver gives memory back when a process ends; emptying caches from outside frees nothing. Every "
            "request or step in flight in this pod is lost. Then have the server end its children when it unloads a "
            "model.",
            risk=Risk.DISRUPTIVE,
            command=kubectl.delete_pod(pod.name, pod.namespace),
            expect="GPU memory in use falls to what the new pod loads. If it stays, a process outside the pod holds "
            "it.",
        ),
    ]


def _mig(verdict: Verdict, failure: Failure) -> list[Step]:
    return [
        *([steps.describe_node(failure.pod.node)] if failure.pod.node else []),
        _edit(
            "Ask for a larger MIG profile, or make the job fit the present one",
            "Replace the `nvidia.com/mig-…` resource by a larger profile that the node offers, or build the engine "
            "with a smaller largest batch. Changing a node's MIG layout needs its GPU drained first.",
            "The container sees an instance larger than the request in the message.",
        ),
    ]


def _vgpu(verdict: Verdict, failure: Failure) -> list[Step]:
    limits = failure.container.limits
    share = next((name for name in limits if name.endswith("/gpumem")), "nvidia.com/gpumem")
    return [
        _edit(
            f"Raise {share} of the pod, or make the job smaller",
            "The share is enforced inside the container and counts contexts too. A whole card does not help a pod that "
            "may use a part of it.",
            "The wanted amount in the message is below the new share.",
        )
    ]


def _kv_cache(verdict: Verdict, failure: Failure) -> list[Step]:
    possible = verdict.signal.numbers.get("possible_tokens") if verdict.signal else None
    length = f"--max-model-len {possible:.0f}" if possible else "a smaller --max-model-len"
    return [
        _edit(
            f"Start the server with {length}, or give it more memory for the cache",
            "Shorter requests need less KV cache. Otherwise: a higher gpu_memory_utilization where nothing else uses "
            "the GPU, an 8-bit KV cache, quantised weights, or tensor parallelism over more GPUs.",
            "The server starts and reports its number of cache blocks.",
        )
    ]


def _unknown(verdict: Verdict, failure: Failure) -> list[Step]:
    return [
        _holders(failure),
        _edit(
            "Make the next failure tell its numbers",
            "Tell a shortage from another process first: GPU memory in use before the pod starts, and the framework's "
            "own memory report when it fails.",
            "The next message, or the metrics, name the amount used by this process and by others.",
        ),
    ]


def _starved(verdict: Verdict, failure: Failure) -> list[Step]:
    is_jax = verdict.signal is not None and verdict.signal.words.get("framework") == "JAX"
    values = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} if is_jax else {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    return [
        changes.set_environment(
            failure.pod,
            failure.container,
            values,
            title="Let the framework take GPU memory as it needs it",
            why="Then the library finds memory for its handle. A limit does the same: a logical device with a memory "
            "limit or per_process_gpu_memory_fraction (TensorFlow), XLA_PYTHON_CLIENT_MEM_FRACTION (JAX). "
            "Where another "
            "process shares the GPU, both need such a limit.",
            expect="The first convolution passes, and memory in use follows the load.",
        )
    ]


_OWN: dict[str, Callable[[Verdict, Failure], list[Step]]] = {
    oom.FRAGMENTED: _fragmented,
    oom.OTHER_PROCESS: _other_process,
    oom.ORPHANS: _orphans,
    oom.MIG_TOO_SMALL: _mig,
    oom.VGPU_LIMIT: _vgpu,
    oom.KV_CACHE: _kv_cache,
    oom.CUDNN_STARVED: _starved,
}
