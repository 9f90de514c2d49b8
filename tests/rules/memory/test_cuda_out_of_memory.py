"""GPU402: GPU memory that ran out in a log, its cause by the numbers and by what the snapshot knows."""

import shlex
from typing import Any

import pytest
import yaml

from diagnostics.findings import Confidence, Finding, Severity
from diagnostics.fixes import Risk, StepKind
from diagnostics.snapshot import Gpu, Metrics, Source
from tests.builders import GIB, ago, container, gpu, node, owner, pod
from tests.rules.memory.failing_pods import diagnosed, ended, failing_pod, found, looping, restarted, signals
from tests.signatures.torch_messages import render

FULL = render(
    "2.5",
    requested=2 * GIB,
    total=80 * GIB,
    free=GIB,
    allocated=77 * GIB,
    unallocated=0.5 * GIB,
    this_process=78 * GIB,
)
SHARED = render(
    "2.5", requested=2 * GIB, total=80 * GIB, free=GIB, allocated=40 * GIB, unallocated=0.5 * GIB,
    this_process=41 * GIB, processes={7: 38 * GIB},
)  # fmt: skip
PIECES = render(
    "2.5", requested=4 * GIB, total=80 * GIB, free=0.5 * GIB, allocated=66 * GIB, unallocated=12 * GIB,
    this_process=79 * GIB,
)  # fmt: skip
DEPLOYMENT = owner("Deployment", "llama")


def findings(*parts: Any, **fields: Any) -> list[Finding]:
    return found("cuda-out-of-memory", *parts, **fields)


def one(log: str, *parts: Any, **fields: Any) -> Finding:
    (finding,) = findings(failing_pod(root=DEPLOYMENT), *parts, log=log, **fields)
    return finding


def value(finding: Finding, label: str) -> str:
    return next(e.value for e in finding.evidence if e.label == label)


def test_reports_a_true_shortage_with_its_numbers() -> None:
    finding = one(FULL)
    assert finding.cause == "model-exceeds-gpu-memory"
    assert finding.severity is Severity.CRITICAL
    assert finding.confidence is Confidence.HIGH
    assert value(finding, "live tensors") == "77 GiB"
    assert value(finding, "missing at least (computed)") == "512 MiB"
    assert "CUDA out of memory" in value(finding, "message")
    assert "Host memory is not concerned" in finding.summary
    assert not any("expandable_segments" in s.command + s.manifest + s.why for s in finding.fix.steps)


def test_stops_the_loop_before_it_changes_the_job() -> None:
    repairs = [s for s in one(FULL).fix.steps if s.kind is StepKind.FIX]

    assert repairs[0].command == "kubectl scale deployment -n research --replicas=0 llama"
    assert repairs[1].title == one(FULL).fix.summary
    (once,) = findings(failing_pod(looping(restarts=1), root=DEPLOYMENT), log=FULL)
    assert "scale" not in str(once.fix.steps)


def test_tells_how_long_the_run_lasted_that_ended() -> None:
    assert value(one(FULL), "ran for") == "6 min"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--per_device_train_batch_size", "16", "--lr", "0.1"), "`--per_device_train_batch_size 16`"),
        (("data.max_seq_length=4096 data.path=x",), "`data.max_seq_length=4096`"),
        (("--max-model-len=8192", "--num-seqs", "4"), "`--max-model-len=8192` and `--num-seqs 4`"),
    ],
)
def test_names_the_sizes_that_the_command_sets(args: tuple[str, ...], told: str) -> None:
    (finding,) = findings(failing_pod(looping(args=args), root=DEPLOYMENT), log=FULL)
    step = next(s for s in finding.fix.steps if s.title == finding.fix.summary)
    assert told.partition(" and ")[0] in step.why
    assert value(finding, "sizes in its command").startswith(told.partition(" and ")[0].strip("`"))


def test_says_that_the_command_sets_no_size() -> None:
    (finding,) = findings(failing_pod(looping(command=("python", "ner.py")), root=DEPLOYMENT), log=FULL)
    assert "`python ner.py`, sets no batch" in str(finding.fix.steps)
    assert "sizes in its command" not in str(finding.evidence)


def test_advises_expandable_segments_only_for_fragmentation() -> None:
    finding = one(PIECES)
    assert finding.cause == "allocator-fragmentation"
    step = next(s for s in finding.fix.steps if s.command.startswith("kubectl patch"))
    box = yaml.safe_load(step.manifest)["spec"]["template"]["spec"]["containers"][0]
    assert box["env"] == [{"name": "PYTORCH_CUDA_ALLOC_CONF", "value": "expandable_segments:True"}]


def test_names_the_pods_that_share_the_gpu() -> None:
    finding = one(SHARED, gpu(holders=("research/train-0", "research/embedder"), replicas=2))
    assert finding.cause == "gpu-memory-held-by-other-process"
    assert value(finding, "also on this GPU") == "research/embedder"
    assert "research/embedder" in finding.summary


def test_knows_no_more_than_that_somebody_else_has_the_memory() -> None:
    finding = one(SHARED, gpu(holders=("research/train-0",), metrics=None))

    assert finding.confidence is Confidence.MEDIUM
    assert "or one outside Kubernetes" in str(finding.fix.steps)


def left(used: float, **fields: Any) -> Gpu:
    sample = Metrics(sampled_at=ago(minutes=1), memory_used_bytes=used, memory_free_bytes=80 * GIB - used)
    return gpu(holders=("research/train-0",), metrics=sample, **fields)


def test_memory_that_ends_with_the_container_is_its_own_pods() -> None:
    finding = one(SHARED, left(0.0))

    assert value(finding, "memory in use while the container is down") == "0 bytes"
    assert finding.confidence is Confidence.HIGH
    assert "of its own pod" in finding.summary
    assert "a second process of its own pod" in finding.title
    assert "outside Kubernetes has it" not in str(finding.fix.steps)
    assert "/proc/" not in str(finding.fix.steps), "its process ended with the container"
    assert "Batch size" not in finding.fix.steps[-1].why


def test_memory_that_stays_is_outside_the_pod() -> None:
    finding = one(SHARED, left(38.0 * GIB))

    assert "a process outside the pod" in finding.summary
    assert "outlived its pod" in str(finding.fix.steps)


def test_memory_under_a_running_container_or_before_its_end_says_nothing() -> None:
    old = Metrics(sampled_at=ago(minutes=9), memory_used_bytes=0.0, memory_free_bytes=80.0 * GIB)
    runs = failing_pod(restarted(), root=DEPLOYMENT)

    (running,) = findings(runs, left(0.0), log=SHARED, previous=True)

    assert "memory in use while" not in str(running.evidence)
    assert "memory in use while" not in str(
        one(SHARED, gpu(holders=("research/train-0",), metrics=old)).evidence
    )


def test_looks_up_the_pod_of_the_process_that_the_message_names() -> None:
    finding = one(SHARED, left(38.0 * GIB))

    command = next(s.command for s in finding.fix.steps if "cgroup" in s.command)
    assert shlex.split(command)[-3:] == ["/host", "cat", "/proc/7/cgroup"]
    assert value(finding, "GPU of the pod").startswith("gpu-1/")
    assert "of the run that ended" in next(s.title for s in finding.fix.steps if "cgroup" in s.command)


def test_a_crash_loop_is_read_in_the_log_that_its_evidence_is_from() -> None:
    for box in (looping(), restarted()):
        (finding,) = findings(failing_pod(box, root=DEPLOYMENT), log=FULL, previous=True)
        assert "--previous" in finding.fix.steps[0].command
    done = container(state="terminated", running_since=None, is_ready=False, terminated=ended())
    (once,) = findings(failing_pod(done, root=DEPLOYMENT, phase="Failed"), log=FULL)
    assert "--previous" not in once.fix.steps[0].command


def test_takes_several_processes_on_an_unshared_gpu_for_leftovers() -> None:
    log = render(
        "2.5", requested=2 * GIB, total=80 * GIB, free=GIB, allocated=40 * GIB, unallocated=0.5 * GIB,
        this_process=41 * GIB, processes={7: 18 * GIB, 8: 20 * GIB},
    )  # fmt: skip
    assert one(log, gpu(holders=("research/train-0",))).cause == "orphan-processes-hold-gpu-memory"
    assert (
        one(log, gpu(holders=("research/train-0",), replicas=4)).cause == "gpu-memory-held-by-other-process"
    )
    assert one(log).cause == "gpu-memory-held-by-other-process"


def test_calls_a_shortage_on_a_mig_instance_a_slice_that_is_too_small() -> None:
    log = render(
        "2.5", requested=2 * GIB, total=19.5 * GIB, free=0.2 * GIB, allocated=18 * GIB, unallocated=0.3 * GIB
    )
    device = gpu(
        slot="gpu-1/00000000:10:00.0/mig-1", mig_profile="3g.20gb", resource="nvidia.com/mig-3g.20gb",
        holders=("research/train-0",),
    )  # fmt: skip
    finding = one(log, device)
    assert finding.cause == "mig-slice-smaller-than-need"
    assert value(finding, "MIG profile") == "3g.20gb"
    box = looping(limits={"nvidia.com/mig-3g.20gb": 1.0}, requests={}, gpus=0)
    (by_resource,) = findings(failing_pod(box), log=log)
    assert by_resource.cause == "mig-slice-smaller-than-need"


def test_offers_a_larger_slice_that_the_gpu_can_be_cut_into() -> None:
    log = render(
        "2.5", requested=2 * GIB, total=9.5 * GIB, free=0.2 * GIB, allocated=8 * GIB, unallocated=0.3 * GIB
    )
    box = looping(limits={"nvidia.com/mig-1g.10gb": 1.0}, requests={}, gpus=0)
    manager = pod("mig-manager", "gpu-operator", 0, labels={"app": "nvidia-mig-manager"})
    (finding,) = findings(failing_pod(box), node(), manager, log=log)
    commands = [s.command for s in finding.fix.steps]
    assert "kubectl label node --overwrite gpu-1 nvidia.com/mig.config=all-1g.20gb" in commands
    assert finding.fix.steps[-1].kind is StepKind.ESCALATE


def test_offers_memory_of_its_own_where_pods_share_a_gpu_by_time() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-L40S-SHARED", "nvidia.com/gpu.replicas": "4"}
    device = gpu(holders=("research/train-0", "research/embedder"), replicas=4)
    finding = one(SHARED, device, node(labels=labels))
    assert "mps:" in "".join(s.manifest for s in finding.fix.steps)
    alone = one(SHARED, device, node())
    assert "mps:" not in "".join(s.manifest for s in alone.fix.steps)


def test_calls_a_shortage_on_a_part_of_a_card_a_share() -> None:
    labelled = node(labels={"nvidia.com/gpu.memory": "81559"})
    log = render(
        "2.5", requested=2 * GIB, total=19.5 * GIB, free=0.2 * GIB, allocated=18 * GIB, unallocated=0.3 * GIB
    )
    assert one(log, labelled).cause == "vgpu-memory-limit-exceeded"
    assert one(FULL, labelled).cause == "model-exceeds-gpu-memory"


VLLM_FREE = (
    "ValueError: Free memory on device ({}/47.38 GiB) on startup is less than desired GPU memory utilization (0.95, "
    "45.01 "
    "GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
)
KV = (
    "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (9.56 GiB). Based on the available memory, the estimated "
    "maximum "
    "model length is 78256.\n"
)


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (VLLM_FREE.format("31.44"), "gpu-memory-held-by-other-process"),
        (VLLM_FREE.format("44.80"), "gpu-memory-utilization-too-high"),
        (KV, "kv-cache-does-not-fit"),
        ("ValueError: No available memory for the cache blocks.", "kv-cache-does-not-fit"),
        ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "kv-cache-does-not-fit"),
        ("RuntimeError: CUDA error: out of memory", "unknown"),
        ("NCCL WARN Cuda failure 2 'out of memory'", "unknown"),
        ("RuntimeError: CUDA out of memory.", "unknown"),
    ],
)  # fmt: skip
def test_reads_what_servers_and_libraries_say(log: str, cause: str) -> None:
    finding = one(log)
    assert finding.cause == cause
    assert (finding.confidence is Confidence.LOW) == (cause == "unknown")


def test_advises_the_length_that_the_server_computed() -> None:
    assert "--max-model-len 78256" in one(KV).fix.summary


def test_takes_a_request_larger_than_the_gpu_for_what_it_is() -> None:
    log = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 128849018880 bytes."
    assert one(log, gpu(holders=("research/train-0",))).cause == "request-exceeds-gpu"


def test_reports_the_previous_run_of_a_pod_that_runs_again_as_a_warning() -> None:
    (finding,) = findings(failing_pod(restarted()), log=FULL, previous=True)
    assert finding.severity is Severity.WARNING
    assert any("--previous" in s.command for s in finding.fix.steps)


def test_is_silent_on_an_error_that_a_running_pod_caught() -> None:
    assert findings(pod(), log=FULL) == []
    assert findings(failing_pod(restarted()), log=FULL) == []


def test_is_silent_on_preempted_requests_and_a_full_pool() -> None:
    log = (
        "Sequence group 221 is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV cache space.\n"
        "KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_token_ratio: 0.71 -> 0.85\n"
        "Failed to allocate CUDA memory with byte size 67108864 on GPU 0: CNMEM_STATUS_OUT_OF_MEMORY\n"
    )
    assert findings(failing_pod(), log=log) == []


def test_is_silent_on_host_memory() -> None:
    box = looping(ended("OOMKilled", 137))
    assert findings(failing_pod(box), log=FULL) == []
    log = "OOM when allocating tensor with shape[8,8] and type float on /device:CPU:0 by allocator cpu"
    assert findings(failing_pod(), log=log) == []


def test_is_silent_on_a_pod_without_gpus_and_on_an_old_failure() -> None:
    assert findings(failing_pod(looping(gpus=0), gpus=0), log=FULL) == []
    old = ended(finished_at=ago(hours=30))
    assert findings(failing_pod(restarted(old)), log=FULL, previous=True) == []


def test_is_silent_on_the_log_of_another_container() -> None:
    box = failing_pod(containers=(looping(), container("web", gpus=0)))
    assert findings(box, signals=signals(FULL, box, box="web"), logs_read=(box.key,)) == []


def test_does_not_judge_a_failing_pod_whose_log_was_not_read() -> None:
    outcome = diagnosed(failing_pod(root=DEPLOYMENT), logs_read=())
    assert [u.subject.name for u in outcome.unjudged if u.code == "GPU402"] == ["llama"]
    assert not diagnosed(failing_pod(root=DEPLOYMENT)).unjudged


@pytest.mark.parametrize("missing", [Source.PODS, Source.LOGS])
def test_is_skipped_without_pods_or_logs(missing: Source) -> None:
    assert "GPU402" in {s.code for s in diagnosed(failing_pod(), log=FULL, without=[missing]).skipped}


def test_merges_the_pods_of_one_owner() -> None:
    pods = [failing_pod(name=f"llama-{n}", root=DEPLOYMENT) for n in range(2)]
    told = tuple(s for p in pods for s in signals(FULL, p))
    (finding,) = findings(*pods, signals=told)
    assert finding.pods == ("research/llama-0", "research/llama-1")
    assert finding.gpus == 2


def test_lets_a_message_with_numbers_lead() -> None:
    assert one(
        f"RuntimeError: CUDA error: out of memory\n{FULL}\nRuntimeError: CUDA out of memory.\n"
    ).cause == ("model-exceeds-gpu-memory")


@pytest.mark.parametrize(
    "log", [FULL, SHARED, PIECES, KV, VLLM_FREE.format("31.44"), "RuntimeError: CUDA out of memory."]
)
def test_reads_before_it_changes_and_never_runs_code_in_the_pod(log: str) -> None:
    finding = one(log)
    steps = finding.fix.steps
    assert (steps[0].kind, steps[0].risk) == (StepKind.DIAGNOSE, Risk.READ_ONLY)
    assert steps[-1].kind is StepKind.ESCALATE
    assert not any("exec" in s.command or "reboot" in s.title.lower() for s in steps)
    assert all(s.why and s.expect for s in steps)
