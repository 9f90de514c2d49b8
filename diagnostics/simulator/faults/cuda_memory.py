"""Programs that end for lack of GPU memory, told apart by the numbers they print, and logs that only mention it.

The messages have the shape that PyTorch 2.5 prints (c10/cuda/CUDACachingAllocator.cpp).
"""

from dataclasses import replace
from datetime import timedelta
from functools import partial

from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.faults.node_stack import split_last
from diagnostics.simulator.lifecycle import crash_cycle, crash_looping, running
from diagnostics.simulator.templates import server, single
from diagnostics.simulator.timestamps import HOUR, MINUTE, seconds
from diagnostics.simulator.world import World

RULE = "cuda-out-of-memory"
RUN_S = 25
AGE = 45 * MINUTE
FIRST_PID = 2713842
PIDS_PER_RUN = 1709
"""The second process is a child of the container: each run has another."""
_HINT = (
    "If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to "
    "avoid fragmentation.  See documentation for Memory Management  "
    "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
)


def message(
    tried: str,
    free: str,
    process: str,
    allocated: str,
    reserved: str,
    *,
    total: str = "79.11 GiB",
    other: str = "",
) -> str:
    """PyTorch's own words with these numbers; `other` is what another process has in use."""
    neighbour = f"Process {FIRST_PID} has {other} memory in use. " if other else ""
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU 0 has a total capacity of "
        f"{total} of which {free} is free. {neighbour}Including non-PyTorch memory, this process has {process} "
        f"memory in use. Of the allocated memory {allocated} is allocated by PyTorch, and {reserved} is reserved by "
        f"PyTorch but unallocated. {_HINT}"
    )


# (what is tried, message, cause in words); the names say nothing about the cause.
CASES: dict[str, tuple[str, str, str]] = {
    "cuda-oom-shortage": (
        "ner-train",
        message("1.96 GiB", "1.12 GiB", "77.98 GiB", "76.90 GiB", "412.31 MiB"),
        "the model does not fit: a true shortage",
    ),
    "cuda-oom-fragmentation": (
        "qa-train",
        message("4.00 GiB", "1.41 GiB", "77.69 GiB", "58.42 GiB", "18.61 GiB"),
        "fragmentation: far more is reserved and unallocated than was asked for",
    ),
    "cuda-oom-other-process": (
        "tag-train",
        message("2.00 GiB", "1.02 GiB", "43.91 GiB", "42.87 GiB", "385.12 MiB", other="34.17 GiB"),
        "a second process of its own pod has memory on the same GPU",
    ),
    "cuda-oom-single-tensor": (
        "pose-train",
        message("128.00 GiB", "70.36 GiB", "8.74 GiB", "8.05 GiB", "120.77 MiB"),
        "one tensor is larger than the GPU",
    ),
    "cuda-oom-mig-slice": (
        "depth-train",
        message("512.00 MiB", "187.25 MiB", "9.31 GiB", "8.90 GiB", "61.44 MiB", total="9.50 GiB"),
        "the MIG instance is smaller than what the program needs",
    ),
}


def _ended_runs(world: World) -> int:
    """Before the run whose end the log tells."""
    restarts, _, runs = crash_cycle(max(world.now - world.before(AGE), timedelta(0)), RUN_S)
    return restarts - runs


def _failing(world: World, *, slug: str) -> None:
    name, text, cause = CASES[slug]
    resource = "nvidia.com/gpu"
    node = world.pick_node(1)
    if slug == "cuda-oom-mig-slice":
        node, resource = split_last(world, node).name, "nvidia.com/mig-1g.10gb"
    template = single(name, 1, memory="64Gi", restart_policy="Always")
    for amounts in template.containers[0]["resources"].values():
        amounts[resource] = amounts.pop("nvidia.com/gpu")
    deployment = world.add("Deployment", f"vision/{name}", template, age=AGE)
    log = (
        "INFO loading checkpoint shards: 100%",
        "INFO starting at step 0",
        "Traceback (most recent call last):",
        f'  File "/workspace/{name}.py", line 212, in main',
        "    loss = model(**batch).loss",
        text.replace(f"Process {FIRST_PID} ", f"Process {FIRST_PID + PIDS_PER_RUN * _ended_runs(world)} "),
    )
    world.place(deployment, node, 0, crash_looping(world.now, world.before(AGE), run_for_s=RUN_S, log=log))
    world.expect(RULE, deployment, cause)


def _handled(world: World) -> None:
    """The trainer catches the error once at the start, halves its batch and trains on."""
    name, text, _ = CASES["cuda-oom-shortage"]
    log = (
        f"INFO auto_batch: batch 64 failed: {text}",
        "INFO auto_batch: retrying with batch 32",
        "INFO auto_batch: batch 32 fits, training",
    )
    deployment = world.add(
        "Deployment", f"vision/{name}", single(name, 1, restart_policy="Always"), age=5 * HOUR
    )
    state = running(deployment.created + seconds(4))
    world.place(deployment, world.pick_node(1), 0, replace(state, log=log))


def _preallocating(world: World) -> None:
    """A server takes nearly all memory on purpose, and says so."""
    log = (
        "INFO [gpu_worker.py:227] Memory profiling takes 5.61 seconds",
        "INFO [gpu_worker.py:227] the current vLLM instance can use total_gpu_memory (79.11GiB) x "
        "gpu_memory_utilization (0.90) = 71.20GiB",
        "INFO [executor_base.py:112] # cuda blocks: 27412, # CPU blocks: 2048. If you run out of memory during "
        "cudagraph capture, consider decreasing gpu_memory_utilization or switching to eager mode.",
    )
    template = server("Qwen/Qwen2.5-14B-Instruct", 1, pool="")
    deployment = world.add("Deployment", "vision/captioner", template, age=5 * HOUR, activity="inference")
    world.place(deployment, world.pick_node(1), 0, replace(running(deployment.created + seconds(4)), log=log))


def _fault(slug: str, twin: str) -> Fault:
    name, _, cause = CASES[slug]
    apply = partial(_failing, slug=slug)
    return Fault(
        slug, RULE, twin, "Deployment", name, cause, apply, namespace="vision", also=("stuck-holder",)
    )


FAULTS = tuple(
    _fault(slug, "oom-preallocated" if slug == "cuda-oom-other-process" else "oom-handled") for slug in CASES
)
TWINS = (
    Twin("oom-handled", "the program caught the error and goes on", _handled),
    Twin("oom-preallocated", "nothing failed: the server speaks of memory as it starts", _preallocating),
)
