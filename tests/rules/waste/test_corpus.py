"""A recorded pod that hardly needs its CPU while its GPU works is healthy, whatever its figures are within that."""

import re
from datetime import timedelta
from pathlib import Path

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnostics.rules import diagnose
from diagnostics.snapshot import Metrics, Snapshot
from diagnostics.snapshot.usage import ContainerUsage
from tests.builders import GIB, NOW, container, gpu, node, owner, pod, stat, window
from tests.rules.waste.test_idle_gpu import judged

CASE = Path(__file__).parents[2] / "corpus" / "waste" / "low_cpu_on_busy_gpu.yaml"
TEXT: str = yaml.safe_load(CASE.read_text())["input"]
_TOP = re.compile(r"(\S+)\s+CPU (\d+)m of (\d+)m\s+MEMORY (\d+)Gi of (\d+)Gi")
_SERIES = re.compile(r"^(\w+)\{[^}]*\} (\S+)$", re.MULTILINE)


def picture(text: str) -> Snapshot:
    """The pod of `kubectl top`, limited to what stands behind its figures, with the GPU that its series are of."""
    top = _TOP.search(text)
    assert top is not None
    name, used, cores, memory, most = top[1], *map(float, top.groups()[1:])
    values = {series: float(value) for series, value in _SERIES.findall(text)}
    utilization = values["DCGM_FI_DEV_GPU_UTIL"] / 100
    active = values["DCGM_FI_PROF_GR_ENGINE_ACTIVE"]
    amounts = {"cpu": cores / 1000, "memory": most * GIB, "nvidia.com/gpu": 1.0}
    serving = pod(
        name,
        "serving",
        root=owner("StatefulSet", name.rpartition("-")[0], "serving"),
        containers=(container(requests=amounts, limits=amounts),),
    )
    board = gpu(
        holders=(serving.key,),
        metrics=Metrics(sampled_at=NOW, utilization_ratio=utilization),
        window=window(
            utilization_ratio=stat(utilization),
            gr_engine_ratio=stat(active),
            sm_active_ratio=None,
            dram_active_ratio=None,
            tensor_active_ratio=None,
            power_w=None,
        ),
    )
    usage = ContainerUsage(
        pod=serving.key,
        container="main",
        span=timedelta(minutes=30),
        samples_count=60,
        working_set_bytes=stat(memory * GIB),
        cpu_cores=used / 1000,
        throttled_ratio=values["container_cpu_cfs_throttled_periods_total"],
    )
    return judged(node(), serving, board, usage=(usage,))


def found(text: str) -> list[str]:
    diagnosis = diagnose(picture(text))
    assert diagnosis.failed == ()
    return [finding.code for finding in diagnosis.findings]


def test_a_busy_gpu_whose_pod_hardly_needs_cpu_is_healthy() -> None:
    assert found(TEXT) == []


@given(
    used=st.integers(1, 7900),
    memory=st.integers(1, 36),
    utilization=st.integers(10, 100),
    active=st.floats(0.05, 1.0),
    name=st.from_regex(r"[a-z]{1,20}-[0-9]{1,3}", fullmatch=True),
)
@settings(deadline=None)
def test_its_cpu_says_nothing_about_its_gpu(
    used: int, memory: int, utilization: int, active: float, name: str
) -> None:
    text = TEXT.replace("310m", f"{used}m").replace("21Gi", f"{memory}Gi").replace("llm-0", name)
    text = text.replace("} 91", f"}} {utilization}").replace("} 0.88", f"}} {active:.3f}")
    assert found(text) == []


def test_one_decisive_fact_changes_the_answer() -> None:
    """The same pod with a busy CPU and a GPU that does nothing."""
    idle = TEXT.replace("310m", "7900m").replace("} 91", "} 0").replace("} 0.88", "} 0")
    assert found(idle) == ["GPU501"]
