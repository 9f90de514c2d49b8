"""Servers that the kubelet kills because of a probe, and others of which a probe fails without that."""

from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.lifecycle import crash_looping, restarted, running
from diagnostics.simulator.templates import server, triton
from diagnostics.simulator.timestamps import HOUR, MINUTE, seconds
from diagnostics.simulator.workloads import PodState
from diagnostics.simulator.world import World

RULE = "probe-killed"
AGE, SINCE = 3 * HOUR, 2 * MINUTE
FORGIVEN_S = 600
"""The kubelet forgets its back-off once a container ran for so long."""
_LIVENESS = "Liveness probe failed: "
_REFUSED = 'Get "http://{}:8000/health": dial tcp {}:8000: connect: connection refused'.replace("{}", "{0}")


@dataclass(frozen=True)
class _Case:
    name: str
    cause: str
    """In words; of a twin the decisive fact."""
    probe: str
    restarts: int = 6
    """0: nothing was ever killed."""
    run_for_s: float = 180
    """Of each run that the kubelet ended."""
    is_triton: bool = False


# Fault and twin, which differ in how often the kubelet killed, or in which probe it is that fails.
PAIRS: dict[str, tuple[_Case, str, _Case]] = {
    "probe-wrong-path": (
        _Case("rag-server", "its probe asks for a path that it does not have",
              f"{_LIVENESS}HTTP probe failed with statuscode: 404", is_triton=True),
        "probe-failed-once",
        _Case("rag-server-b", "it was killed once, while it was being changed",
              f"{_LIVENESS}HTTP probe failed with statuscode: 404", restarts=1, is_triton=True),
    ),
    "probe-before-loaded": (
        _Case("mixtral", "its probe begins before the model is loaded", f"{_LIVENESS}{_REFUSED}"),
        "readiness-refused",
        _Case("mixtral-b", "it is the readiness probe that fails, which kills nothing",
              f"Readiness probe failed: {_REFUSED}", restarts=0),
    ),
    "probe-no-answer": (
        _Case("coder", "its probe gets no answer in time",
              f'{_LIVENESS}Get "http://{{}}:8000/health": context deadline exceeded '
              "(Client.Timeout exceeded while awaiting headers)", run_for_s=1700),
        "probe-late-once",
        _Case("coder-b", "one answer was late, and nothing was killed",
              f'{_LIVENESS}Get "http://{{}}:8000/health": context deadline exceeded', restarts=0),
    ),
    "probe-server-unwell": (
        _Case("guard", "it says itself that it is not healthy",
              f"{_LIVENESS}HTTP probe failed with statuscode: 503", run_for_s=900),
        "probe-failed-startup",
        _Case("guard-b", "503 while it started, within what its startup probe allows",
              "Startup probe failed: HTTP probe failed with statuscode: 503", restarts=0),
    ),
}  # fmt: skip


def _run(world: World, *, case: _Case, is_killed: bool) -> None:
    template = triton(pool="") if case.is_triton else server(f"example/{case.name}", 1, pool="")
    if case.is_triton:
        asked = {"path": "/healthz", "port": "http", "scheme": "HTTP"}
        template.app["livenessProbe"] = {"httpGet": asked, "periodSeconds": 10, "failureThreshold": 3}
    deployment = world.add(
        "Deployment", f"assist/{case.name}", template, age=AGE, activity="inference", service_port=8000
    )
    start = deployment.created + seconds(4)
    world.place(deployment, world.pick_node(1), 0, replace(_state(world, start, case), probe=case.probe))
    if is_killed:
        world.expect(RULE, deployment, case.cause)


def _state(world: World, start: datetime, case: _Case) -> PodState:
    """A container that ran for long starts again at once; one that did not waits longer and longer."""
    if case.restarts > 1 and case.run_for_s < FORGIVEN_S:
        return crash_looping(world.now, start, run_for_s=case.run_for_s, code=137)
    last, again = world.before(SINCE), seconds(case.run_for_s + 3)
    turns = max(-case.restarts, (world.now - last) // again)
    if case.restarts < 2:
        turns = min(turns, 0)
    if case.restarts + turns <= 0:
        return running(start)
    return restarted(
        last + turns * again, 137, "Error", restarts=case.restarts + turns, run_for_s=case.run_for_s
    )


FAULTS = tuple(
    Fault(
        slug,
        RULE,
        twin,
        "Deployment",
        case.name,
        case.cause,
        partial(_run, case=case, is_killed=True),
        "assist",
        also=("stuck-holder",) if case.run_for_s < FORGIVEN_S else (),
    )
    for slug, (case, twin, _) in PAIRS.items()
)
TWINS = tuple(
    Twin(slug, case.cause, partial(_run, case=case, is_killed=False)) for _, slug, case in PAIRS.values()
)
