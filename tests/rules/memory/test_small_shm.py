"""GPU407: /dev/shm that ran out, told from full disks and other bus errors; volumes in memory above their limit."""

import json
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnostics.findings import Confidence, Finding, Severity
from diagnostics.snapshot import Volume
from tests.builders import GIB, container, owner, pod
from tests.corpus import mutations
from tests.rules.memory.failing_pods import diagnosed, ended, failing_pod, found, looping

DEPLOYMENT = owner("Deployment", "detector")
MEMORY = Volume("shm", "emptyDir", medium="Memory", size_limit_bytes=4.0 * GIB)
MOUNTED: dict[str, Any] = {"mounts": {"/dev/shm": "shm"}}

MESSAGES = {
    "nccl 2.8": "include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device",
    "nccl 2.18": "gpu-1:80:301 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend "
    "/dev/shm/nccl-mlwQ5W to 33030532 "
    "bytes",
    "nccl 2.4": "include/shm.h:48 NCCL WARN Error while creating shared memory segment nccl-shm-recv-146-1-2-3 (size "
    "9637888)",
    "torch loader": "ERROR: Unexpected bus error encountered in worker. This might be caused by "
    "insufficient shared memory "
    "(shm).",
    "torch loader, later": "RuntimeError: DataLoader worker (pid 20655) is killed by signal: Bus error. It is possible "
    "that dataloader's workers are out of shared memory. Please try to raise your shared memory limit.",
    "torch tensors": "RuntimeError: unable to write to file </torch_18692_1954506624>: No space left on device (28)",
    "torch objects": "RuntimeError: unable to open shared memory object </torch_29841_2933458171_9> in "
    "read-write mode: No "
    "space left on device (28)",
    "multiprocessing": "OSError: [Errno 28] No space left on device: '/dev/shm/psm_1a2b3c4d'",
    "triton": "Failed to increase the shared memory pool size for key "
    "'/dev/shm/triton_python_backend_shm_region_1': No "
    "space left on device",
}  # fmt: skip

OTHERS = {
    "a disk": "OSError: [Errno 28] No space left on device: '/workspace/ckpt/step-100.pt'",
    "a disk of safetensors": "Error while serializing: IoError(Os { code: 28, message: \"No space left on device\" })",
    "too many files": "RuntimeError: unable to open shared memory object </torch_1_2> in read-write mode: "
    "Too many open "
    "files (24)",
    "gone": "RuntimeError: unable to open shared memory object </torch_1_2> in read-write mode: No such "
    "file or directory "
    "(2)",
    "killed for memory": "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.",
}  # fmt: skip


def findings(*parts: Any, **fields: Any) -> list[Finding]:
    return found("small-shm", *parts, **fields)


@pytest.mark.parametrize("name", MESSAGES)
def test_recognises_shared_memory_that_ran_out(name: str) -> None:
    (finding,) = findings(failing_pod(), log=MESSAGES[name])
    assert finding.cause == "dev-shm-too-small"
    assert finding.confidence is Confidence.HIGH
    assert finding.severity is Severity.CRITICAL
    assert "64 MiB" in finding.title


@pytest.mark.parametrize("name", MESSAGES)
@given(seed=st.integers(min_value=0, max_value=2**32))
@settings(max_examples=10, deadline=None)
def test_recognises_it_however_a_log_is_wrapped(name: str, seed: int) -> None:
    text, random = MESSAGES[name], Random(seed)
    for mutation in (mutations.wrapped, mutations.among_ranks, mutations.noisy):
        if random.random() < 0.7:
            text = mutation(text, random)
    assert [f.cause for f in findings(failing_pod(), log=text)] == ["dev-shm-too-small"], text


@pytest.mark.parametrize("name", OTHERS)
def test_leaves_other_shortages_alone(name: str) -> None:
    assert findings(failing_pod(), log=OTHERS[name]) == []


def test_a_bus_error_without_words_counts_only_with_the_small_default() -> None:
    by_signal = looping(ended("Error", 135))
    (finding,) = findings(failing_pod(by_signal))
    assert (finding.cause, finding.confidence) == ("dev-shm-too-small", Confidence.MEDIUM)
    mounted = looping(ended("Error", 135), **MOUNTED)
    assert findings(failing_pod(mounted, volumes=(MEMORY,))) == []


def test_names_the_size_of_what_is_mounted() -> None:
    (finding,) = findings(failing_pod(looping(**MOUNTED), volumes=(MEMORY,)), log=MESSAGES["torch loader"])
    assert "limited to 4 GiB" in finding.title


def test_the_patch_adds_a_volume_and_its_mount_and_nothing_else() -> None:
    (finding,) = findings(failing_pod(root=DEPLOYMENT), log=MESSAGES["nccl 2.8"])
    step = next(s for s in finding.fix.steps if s.command.startswith("kubectl patch"))
    spec = yaml.safe_load(step.manifest)["spec"]["template"]["spec"]
    assert spec == {
        "containers": [{"name": "main", "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}]}],
        "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}],
    }
    assert json.dumps(spec, separators=(",", ":")) in step.command


def test_a_bare_pod_gets_the_lines_of_its_manifest() -> None:
    (finding,) = findings(failing_pod(), log=MESSAGES["nccl 2.8"])
    step = next(s for s in finding.fix.steps if s.manifest)
    assert set(yaml.safe_load(step.manifest)) == {"containers", "volumes"}


def test_a_volume_in_memory_above_the_memory_limit_is_a_note() -> None:
    wide = Volume("shm", "emptyDir", medium="Memory", size_limit_bytes=64.0 * GIB)
    (finding,) = findings(pod(containers=(container(**MOUNTED),), volumes=(wide,)))
    assert (finding.cause, finding.severity) == ("memory-volume-above-limit", Severity.INFO)
    assert findings(pod(containers=(container(**MOUNTED),), volumes=(MEMORY,))) == []
    assert findings(pod(containers=(container(limits={}, **MOUNTED),), volumes=(wide,))) == []


def test_a_log_that_was_not_read_is_not_judged() -> None:
    outcome = diagnosed(failing_pod(), logs_read=())
    assert "GPU407" in {u.code for u in outcome.unjudged}
    assert [f for f in outcome.findings if f.slug == "small-shm"] == []


def test_a_pod_without_a_gpu_is_left_alone() -> None:
    box = looping(gpus=0)
    assert findings(failing_pod(box), log=MESSAGES["nccl 2.8"]) == []
