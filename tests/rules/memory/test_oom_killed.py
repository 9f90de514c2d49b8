"""GPU401: host memory, told from every other killer."""

from typing import Any

import pytest
import yaml

from diagnostics.findings import Confidence, Finding, Severity
from diagnostics.fixes import Risk
from diagnostics.snapshot import Condition, Source, Volume, Workload
from tests.builders import GIB, ago, container, event, gpu, owner, pod
from tests.rules.memory.failing_pods import diagnosed, ended, failing_pod, found, looping, restarted

OOM = ended("OOMKilled", 137)
DEPLOYMENT = owner("Deployment", "llama")

DEEPSPEED = (
    "[ERROR] [launch.py:324:sigkill_handler] ['python3', '-u', 'train.py'] exits with return code = -9\n"
)
OFFLOAD = "[INFO] [stage_1_and_2.py:151:__init__] CPU Offload: True\n"
TORCHRUN = "  exitcode  : -9 (pid: 4711)\n  traceback : Signal 9 (SIGKILL) received by PID 4711\n"
LOADER = "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed. \n"
RAY = (
    "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\nMemory on the node (IP: "
    "10.0.0.47) where the task was running was 54.86GB / 57.60GB (0.952354), which exceeds the memory usage threshold "
    "of 0.95.\n"
)


def findings(*parts: Any, **fields: Any) -> list[Finding]:
    return found("oom-killed", *parts, **fields)


def value(finding: Finding, label: str) -> str:
    return next(e.value for e in finding.evidence if e.label == label)


def test_reports_a_container_in_a_crash_loop() -> None:
    (finding,) = findings(failing_pod(looping(OOM), root=DEPLOYMENT))
    assert finding.cause == "container-memory-limit"
    assert finding.severity is Severity.CRITICAL
    assert finding.confidence is Confidence.HIGH
    assert (finding.subject.kind, finding.subject.name) == ("Deployment", "llama")
    assert value(finding, "exit code") == "137"
    assert value(finding, "host memory limit") == "32 GiB"
    assert value(finding, "ended") == "4 min ago"


def test_says_that_it_is_host_memory_and_shows_gpu_memory_beside_it() -> None:
    (finding,) = findings(failing_pod(looping(OOM)), gpu(holders=("research/train-0",)))
    assert "host memory" in finding.title
    assert "not GPU memory" in finding.summary
    assert value(finding, "GPU memory now (not the cause)") == "60 GiB of 79 GiB"


def test_warns_of_one_that_runs_again() -> None:
    (finding,) = findings(failing_pod(restarted(OOM)))
    assert finding.severity is Severity.WARNING
    assert "runs again" in finding.summary


def test_reports_an_init_container_that_ended_with_code_0() -> None:
    init = looping(ended("OOMKilled", 0), name="load", is_init=True)
    main = container(state="waiting", waiting_reason="PodInitializing", is_ready=False, running_since=None)
    (finding,) = findings(failing_pod(containers=(init, main), phase="Pending"))
    assert finding.cause == "init-container-oomkilled"
    assert value(finding, "exit code") == "0"
    patch = next(s.manifest for s in finding.fix.steps if s.manifest)
    assert yaml.safe_load(patch)["initContainers"][0]["name"] == "load"


def test_merges_the_pods_of_one_owner() -> None:
    pods = [failing_pod(looping(OOM), f"llama-{n}", root=DEPLOYMENT) for n in range(3)]
    (finding,) = findings(*pods)
    assert finding.pods == ("research/llama-0", "research/llama-1", "research/llama-2")
    assert finding.gpus == 3


def test_raises_the_limit_from_what_was_observed_and_by_no_rule_of_thumb() -> None:
    (finding,) = findings(failing_pod(looping(OOM), root=DEPLOYMENT))
    step = next(s for s in finding.fix.steps if s.command.startswith("kubectl patch"))
    resources = yaml.safe_load(step.manifest)["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert resources["limits"]["memory"] == "42Gi"  # 1.3 x 32
    assert resources["requests"] == resources["limits"]
    assert finding.fix.steps[0].risk is Risk.READ_ONLY


def test_blames_the_node_where_the_node_ran_out() -> None:
    event_of_node = event(
        "SystemOOM", "System OOM encountered, victim process: python3, pid: 1234", "gpu-1", kind="Node", namespace="",
        last_at=ago(minutes=4),
    )  # fmt: skip
    (finding,) = findings(failing_pod(looping(OOM)), event_of_node)
    assert finding.cause == "node-out-of-memory"
    assert "python3" in value(finding, "SystemOOM")


def test_blames_the_node_where_the_container_has_no_limit() -> None:
    box = looping(OOM, limits={"nvidia.com/gpu": 1.0})
    (finding,) = findings(failing_pod(box))
    assert finding.cause == "node-out-of-memory"
    assert value(finding, "host memory limit") == "none"


def test_counts_a_volume_in_memory_as_host_memory() -> None:
    box = looping(OOM, mounts={"/dev/shm": "shm"})
    (finding,) = findings(
        failing_pod(box, volumes=(Volume("shm", "emptyDir", medium="Memory", size_limit_bytes=16 * GIB),))
    )
    assert value(finding, "volume in memory at /dev/shm") == "16 GiB"


@pytest.mark.parametrize(
    "fields",
    [{"args": ("--offload_optimizer_device=cpu",)}, {"env": {"ACCELERATE_CPU_OFFLOAD": "cpu_offload"}}],
)
def test_names_offload_from_the_containers_own_arguments(fields: dict[str, Any]) -> None:
    (finding,) = findings(failing_pod(looping(OOM, **fields)))
    assert finding.cause == "host-ram-oom-by-offload"
    assert finding.confidence is Confidence.MEDIUM


@pytest.mark.parametrize(
    ("log", "cause", "confidence"),
    [
        (OFFLOAD + DEEPSPEED, "host-ram-oom-by-offload", Confidence.MEDIUM),
        (OFFLOAD + TORCHRUN, "host-ram-oom-by-offload", Confidence.MEDIUM),
        (TORCHRUN, "child-process-killed", Confidence.MEDIUM),
        (LOADER, "dataloader-worker-killed", Confidence.MEDIUM),
        (RAY, "ray-memory-monitor-host-ram", Confidence.HIGH),
    ],
)
def test_takes_a_killed_child_for_likely(log: str, cause: str, confidence: Confidence) -> None:
    (finding,) = findings(failing_pod(looping()), log=log)
    assert (finding.cause, finding.confidence) == (cause, confidence)
    assert "most likely" in finding.title
    assert any(e.label == "log line" for e in finding.evidence)


def test_is_silent_on_a_launchers_code_alone() -> None:
    assert findings(failing_pod(looping()), log=DEEPSPEED) == []


def test_is_silent_where_ranks_disagreed_before_they_were_ended() -> None:
    log = (
        "[I ProcessGroupWrapper.cpp:562] [Rank 1] Running collective: CollectiveFingerPrint(SequenceNumber=1275, "
        "OpType=ALLREDUCE)\n" + OFFLOAD + DEEPSPEED
    )
    assert findings(failing_pod(looping()), log=log) == []


KILLED = ended("Error", 137)
PROBE = event("Killing", "Container main failed liveness probe, will be restarted", type="Normal", count=4)


@pytest.mark.parametrize(
    ("parts", "fields"),
    [
        ((), {}),
        ((PROBE,), {}),
        ((), {"reason": "Evicted", "phase": "Failed"}),
        ((), {"deletion_at": ago(minutes=5)}),
        ((), {"conditions": (Condition("DisruptionTarget", "True", "PreemptionByScheduler"),)}),
    ],
    ids=["unknown killer", "liveness probe", "evicted", "deleted", "preempted"],
)
def test_is_silent_on_exit_code_137_of_another_killer(parts: tuple[Any, ...], fields: dict[str, Any]) -> None:
    assert findings(failing_pod(looping(KILLED), **fields), *parts) == []
    if parts or fields:
        assert findings(failing_pod(looping(KILLED), **fields), *parts, log=TORCHRUN) == []


def test_is_silent_on_a_healthy_pod() -> None:
    assert findings(pod(), log=TORCHRUN + RAY) == []


def test_is_silent_on_a_pod_without_gpus() -> None:
    assert findings(failing_pod(looping(OOM, gpus=0), gpus=0)) == []


def test_is_silent_on_a_kill_long_ago_of_a_pod_that_runs_again() -> None:
    old = ended("OOMKilled", 137, finished_at=ago(hours=30))
    assert findings(failing_pod(restarted(old))) == []


def test_is_silent_on_a_failed_attempt_that_was_made_good() -> None:
    job = owner("Job", "eval")
    failed = failing_pod(
        container(state="terminated", terminated=OOM, is_ready=False), "eval-a", root=job, phase="Failed",
        created_at=ago(hours=3),
    )  # fmt: skip
    done = pod("eval-b", root=job, phase="Succeeded", created_at=ago(hours=1))
    assert findings(failed, done) == []
    assert len(findings(failed)) == 1


def test_needs_no_log_and_no_metrics() -> None:
    outcome = diagnosed(
        failing_pod(looping(OOM)), without=[Source.LOGS, Source.METRICS, Source.EVENTS], logs_read=()
    )
    assert "oom-killed" in {f.slug for f in outcome.findings}


def test_is_skipped_without_pods() -> None:
    outcome = diagnosed(failing_pod(looping(OOM)), without=[Source.PODS])
    assert "GPU401" in {s.code for s in outcome.skipped}


def test_keeps_a_hostile_name_in_its_place() -> None:
    name = "a'; rm -rf / #"
    (finding,) = findings(failing_pod(looping(OOM, name=name), root=owner("Deployment", "x $(id)")))
    for step in finding.fix.steps:
        assert "\n" not in step.command
    assert any(name in s.manifest or yaml.safe_load(s.manifest) for s in finding.fix.steps if s.manifest)


def test_a_higher_limit_waits_for_no_gpu_that_the_old_pod_holds() -> None:
    llama = Workload(kind="Deployment", namespace="research", name="llama", replicas=1, spec={"template": {}})
    full = pod("neighbour", gpus=7)

    (finding,) = findings(failing_pod(looping(OOM), root=DEPLOYMENT), full, workloads=(llama,))

    commands = [step.command for step in finding.fix.steps]
    room = next(i for i, command in enumerate(commands) if '"maxSurge":0' in command)
    assert '"memory":"42Gi"' in commands[room + 1]
