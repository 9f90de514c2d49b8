"""Memory that will run out though nothing failed yet, on the host and on the GPU, and memory that is only full."""

from dataclasses import dataclass
from functools import partial

from diagnostics.simulator.faults.entry import Fault, Twin
from diagnostics.simulator.templates import server, single
from diagnostics.simulator.timestamps import HOUR
from diagnostics.simulator.world import World

AGE = 6 * HOUR
NAMESPACE = "ranking"


@dataclass(frozen=True)
class _Case:
    name: str
    rule: str
    cause: str
    """In words; of a twin the decisive fact."""
    activity: str = "load-60"
    host_memory: str = "steady"
    needs_prometheus: bool = True
    offload_gb: int = 0
    is_server: bool = False


# Fault and twin, which differ in one of the last fields.
PAIRS: dict[str, tuple[_Case, str, _Case]] = {
    "host-memory-tight": (
        _Case("ranker", "host-memory-limit", "host memory near its limit", host_memory="tight"),
        "host-memory-cached",
        _Case("ranker-b", "", "the rest of the limit is file cache, which can be dropped", host_memory="cached"),
    ),
    "offload-above-limit": (
        _Case(
            "scorer", "host-memory-limit", "told to offload more than the limit", needs_prometheus=False,
            offload_gb=120, is_server=True,
        ),
        "offload-below-limit",
        _Case(
            "scorer-b", "", "the limit holds what it offloads", needs_prometheus=False, offload_gb=40, is_server=True,
        ),
    ),
    "host-memory-growing": (
        _Case("indexer", "growing-memory", "host memory only grows", host_memory="growing"),
        "host-memory-caching",
        _Case("indexer-b", "", "what grows is file cache", host_memory="caching"),
    ),
    "gpu-memory-growing": (
        _Case("embedder", "growing-memory", "GPU memory only grows", activity="leaking"),
        "gpu-memory-level",
        _Case("embedder-b", "", "GPU memory stays level", activity="load-60"),
    ),
    "gpu-memory-peaks": (
        _Case("reranker", "gpu-memory-pressure", "peaks fill the GPU", activity="peaking", needs_prometheus=False),
        "gpu-memory-reserved",
        _Case("reranker-b", "", "full memory stands still", activity="reserved", needs_prometheus=False),
    ),
}  # fmt: skip


def _run(world: World, *, case: _Case) -> None:
    template = single(case.name, 1, memory="100Gi", restart_policy="Always")
    if case.is_server:
        template = server("mistralai/Mistral-Large", 1, memory="100Gi", pool="")
        template.app["args"] += ["--cpu-offload-gb", str(case.offload_gb)]
    deployment = world.add(
        "Deployment", f"{NAMESPACE}/{case.name}", template, age=AGE, activity=case.activity,
        host_memory=case.host_memory,
    )  # fmt: skip
    world.place(deployment, world.pick_node(1))
    if case.rule:
        world.expect(case.rule, deployment, case.cause)


FAULTS = tuple(
    Fault(
        slug, case.rule, twin, "Deployment", case.name, case.cause, partial(_run, case=case), NAMESPACE,
        needs_prometheus=case.needs_prometheus,
    )
    for slug, (case, twin, _) in PAIRS.items()
)  # fmt: skip
TWINS = tuple(
    Twin(slug, case.cause, partial(_run, case=case), needs_prometheus=case.needs_prometheus)
    for _, slug, case in PAIRS.values()
)
