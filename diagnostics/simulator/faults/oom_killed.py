"""Containers that the kernel kills for the memory they take, and others that end with 137 for another reason."""

from functools import partial

from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.lifecycle import crash_looping, restarted, running
from diagnostics.simulator.templates import cpu_only, server, triton
from diagnostics.simulator.timestamps import HOUR, MINUTE, seconds
from diagnostics.simulator.world import World

SINCE = 12 * MINUTE
AGAIN = seconds(1903)
"""From one of its ends to the next."""


def _llama(world: World, *, reason: str) -> None:
    """A large model read through 16 GiB of host memory: killed seven times, and running again for now. With
    reason Error it is the liveness probe that had it killed: exit code 137 as well."""
    name = "llama-70b-awq" if reason == "OOMKilled" else "qwen-72b-awq"
    template = server("TheBloke/Llama-2-70B-AWQ", 1, memory="16Gi", cpu="2", pool="")
    deployment = world.add(
        "Deployment",
        f"serving/{name}",
        template,
        age=5 * HOUR,
        activity="inference",
        service_port=8000,
    )
    first, restarts = world.before(SINCE), 7
    if reason == "OOMKilled":
        # It goes on, and had begun before: the seventh time is the last one before the epoch.
        turns = max(-restarts, (world.now - first) // AGAIN)
        first, restarts = first + turns * AGAIN, restarts + turns
    state = restarted(first, 137, reason, restarts=restarts, run_for_s=1900)
    if not restarts:
        state = running(deployment.created + seconds(4))
    world.place(deployment, world.pick_node(1), 0, state)
    if reason == "OOMKilled":
        world.expect("oom-killed", deployment, "host memory limit of 16 GiB is too small for the model")


def _whisper(world: World) -> None:
    deployment = world.add("Deployment", "speech/whisper", triton(memory="4Gi", pool=""), age=45 * MINUTE)
    state = crash_looping(world.now, world.before(45 * MINUTE), code=137, reason="OOMKilled")
    world.place(deployment, world.pick_node(1), 0, state)
    world.expect("oom-killed", deployment, "host memory limit of 4 GiB is too small for the server")


def _cpu_only(world: World) -> None:
    """The same end, of a pod that has no GPU."""
    deployment = world.add(
        "Deployment",
        "speech/transcoder",
        cpu_only("transcoder", memory="256Mi"),
        age=45 * MINUTE,
        activity="none",
    )
    state = crash_looping(world.now, world.before(45 * MINUTE), code=137, reason="OOMKilled")
    world.place(deployment, "gpu-06", 0, state)


FAULTS = (
    Fault(
        "oom-killed",
        "oom-killed",
        "liveness-killed",
        "Deployment",
        "llama-70b-awq",
        "host memory limit",
        partial(_llama, reason="OOMKilled"),
        namespace="serving",
    ),
    Fault(
        "oom-killed-loop",
        "oom-killed",
        "cpu-oom-killed",
        "Deployment",
        "whisper",
        "host memory limit",
        _whisper,
        namespace="speech",
        also=("stuck-holder",),
    ),
)
TWINS = (
    Twin(
        "liveness-killed",
        "137 too, but from a failed liveness probe",
        partial(_llama, reason="Error"),
        also=("probe-killed",),
    ),
    Twin("cpu-oom-killed", "the pod has no GPU", _cpu_only),
)
