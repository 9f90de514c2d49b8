"""Advice that is widely copied and wrong, outdated or unsafe stands in no guided fix and in no text of the rules.

Each entry has the number that it goes by in the project's collection of such advice: U unsafe, S scheduling, C CUDA,
M memory, D dynamic resource allocation, N distributed training, F frameworks.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from diagnostics.findings import Finding
from diagnostics.fixes import Risk, Step, StepKind
from tests.simulated import all_findings

ROOT = Path(__file__).parent.parent
SOURCES = ("fixes", "rules", "signatures", "glossary", "placement", "gangs")
"""Packages whose texts people read as advice."""


class Wrong(NamedTuple):
    number: str
    pattern: str
    why: str
    may_be_named: bool = False
    """The sources may speak of it, to recognise it or to warn of it; no step may."""


WRONG = (
    Wrong(
        "U1",
        r"(docker|crictl|nerdctl|podman) system prune|docker image prune|prune -a",
        "cleans what others use",
    ),
    Wrong("U1", r"delete\s+pods?\b[^'\"\n]*\s--all\b", "deletes every pod of a namespace"),
    Wrong("U2", r"rollout restart (ds|daemonset)", "restarts a component on every node at once"),
    Wrong(
        "U4",
        r"torch\.cuda\.empty_cache|empty_cache\(\)",
        "has no effect on another process",
        may_be_named=True,
    ),
    Wrong("U4", r"exec\b[^\n]*\bpython3?\b", "starts a second process on the GPU"),
    Wrong("U5", r"\biperf3?\b", "saturates the training network"),
    Wrong("U9", r"NCCL_(IB|P2P)_DISABLE\s*[=:]", "hides the fault and costs the fast path"),
    Wrong(
        "S1",
        r"scheduling\.volcano\.sh/v1\w*[\"',\s\\n]+kind\W+Job\b",
        "the Job is of batch.volcano.sh/v1alpha1",
    ),
    Wrong("S3", r"matchLabels\W+job-name\W.*volcano", "Volcano's label is volcano.sh/job-name"),
    Wrong("S20", r"kubectl run\b[^\n]*--(limits|requests)\b", "the flag is gone since 1.24"),
    Wrong(
        "S21", r"nvidia/cuda:\d+\.\d+-(base|runtime|devel)", "tags carry three numbers, others do not exist"
    ),
    Wrong("S27", r"137\s*(=|means|is)\s*(an? )?OOM", "137 is SIGKILL; OOMKilled is a reason"),
    Wrong("C6", r"CUDA context (gets|is|was) corrupt", "an error is sticky in one process and ends with it"),
    Wrong("M10", r"load_in_8bit\s*=\s*True", "quantization_config=BitsAndBytesConfig(...)"),
    Wrong(
        "D1",
        r"resource\.k8s\.io/v1alpha\d",
        "removed in 1.31: v1 is stable since 1.34",
        may_be_named=True,
    ),
    Wrong("D1", r"resourceClassName|parametersRef", "fields of the removed version", may_be_named=True),
    Wrong(
        "D2",
        r"GpuClaimParameters|gpu\.nvidia\.com/v1alpha1",
        "opaque parameters of resource.nvidia.com",
        may_be_named=True,
    ),
    Wrong("N1", r"\bNCCL_TIMEOUT\b", "no such variable: it is an argument of PyTorch", may_be_named=True),
    Wrong("N2", r"NCCL_IB_RETRY_CNT\s*[=:]\s*['\"]?(?:[89]|\d\d+)", "0 to 7, and 7 is the default"),
    Wrong("N3", r"NCCL_TREE_THRESHOLD", "removed in NCCL 2.5"),
    Wrong("N8", r"annotations\W+apps\.kubernetes\.io/pod-index", "it is a label"),
    Wrong("F5", r"ray\.io/v1alpha1", "ray.io/v1"),
    Wrong("F8", r"RAY_DISABLE_IMPORT_WARNING", "obsolete"),
    Wrong("F9", r"CUDA_VISIBLE_DEVICES\s*[=:]\s*['\"]?\d", "the device plugin says which GPUs there are"),
    Wrong("F11", r"HUGGING_FACE_HUB_TOKEN", "HF_TOKEN", may_be_named=True),
    Wrong("F14", r"huggingface/transformers:", "there is no such image"),
    Wrong("F18", r"VLLM_CPU_KVCACHE_SPACE", "of the CPU backend alone"),
    Wrong(
        "F27",
        r"\b(works|fixes|solves|succeeds|resolved)\b[^.\n]{0,40}\b\d{2} ?(%|percent)",
        "nobody has counted",
    ),
    Wrong(
        "F27",
        r"\b\d{2} ?(%|percent)\b[^.\n]{0,30}\b(of (all )?cases|of the time|success)",
        "nobody has counted",
    ),
)
UNSAFE_EVERYWHERE = (
    (
        "U1",
        r"--all(-namespaces)?\b|(^|\s)-A\b",
        r"\b(delete|scale|patch|label|annotate|drain|cordon|taint|evict)\b",
    ),
    ("U2", r"\s(-l|--selector)[\s=]", r"\bdelete\b"),
)
each = pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong.number}-{wrong.pattern[:24]}")


def steps() -> Iterator[tuple[Finding, Step]]:
    for finding in all_findings():
        for step in finding.fix.steps:
            yield finding, step


def text_of(step: Step) -> str:
    """What somebody would do: its command and manifest."""
    return f"{step.command}\n{step.manifest}"


def words_of(finding: Finding) -> str:
    """All that is said about a finding but what was read from the cluster."""
    said = (
        finding.summary,
        finding.fix.summary,
        *(f"{s.title}\n{s.why}\n{s.expect}" for s in finding.fix.steps),
    )
    return "\n".join(said)


@each
def test_no_step_does_it(wrong: Wrong) -> None:
    for finding, step in steps():
        found = re.search(wrong.pattern, text_of(step), re.IGNORECASE)
        assert not found, f"{wrong.number} in {finding.slug}, {step.title!r}: {wrong.why}"


@each
def test_no_words_advise_it(wrong: Wrong) -> None:
    for finding in all_findings():
        found = re.search(wrong.pattern, words_of(finding), re.IGNORECASE)
        assert not found or wrong.may_be_named, f"{wrong.number} in {finding.slug}: {wrong.why}"


@each
def test_no_source_holds_it(wrong: Wrong) -> None:
    """What no fault of the simulator brings out is looked for where it would be written."""
    for package in SOURCES:
        for path in (ROOT / "diagnostics" / package).rglob("*.py"):
            found = re.search(wrong.pattern, path.read_text(), re.IGNORECASE)
            assert not found or wrong.may_be_named, f"{wrong.number} in {path}: {wrong.why}"


@pytest.mark.parametrize(("number", "wide", "change"), UNSAFE_EVERYWHERE)
def test_no_command_changes_many_things_at_once(number: str, wide: str, change: str) -> None:
    """A selector is bounded to one node, or to a namespace and a job of it."""
    for finding, step in steps():
        if not re.search(change, step.command) or not re.search(wide, step.command):
            continue
        if shlex.split(step.command)[1] in {"get", "describe", "logs", "events"}:
            continue
        is_bounded = "spec.nodeName=" in step.command and " -n " in step.command
        assert is_bounded, f"{number} in {finding.slug}: {step.command}"


def test_nothing_is_rebooted_or_reset_before_it_was_looked_at_and_drained() -> None:
    """U3: a reboot or reset ends everything on the node: never a first step, and never for pods that only wait."""
    for finding in all_findings():
        seen: list[Step] = []
        for step in finding.fix.steps:
            if re.search(r"\breboot\b|--gpu-reset|systemctl (restart|reboot)", step.command):
                assert any(s.kind is StepKind.DIAGNOSE for s in seen), finding.slug
                assert step.risk.rank >= Risk.DISRUPTIVE.rank, finding.slug
                assert not finding.slug.startswith("pending"), finding.slug
            seen.append(step)


def test_nothing_is_run_in_a_pod_that_holds_gpus_but_what_reads() -> None:
    """U4: a second process there takes memory from the first. NCCL's own report and nvidia-smi only read."""
    allowed = {
        "nvidia-smi",
        "ncclras",
        "cat",
        "ls",
        "df",
        "ps",
        "env",
        "getent",
        "dmesg",
        "chroot",
        "mount",
        "du",
    }
    for finding, step in steps():
        words = shlex.split(step.command)
        if words[1:2] == ["exec"]:
            command = words[words.index("--") + 1 :]
            assert command[0] in allowed, f"{finding.slug}: {step.command}"


def test_a_changed_thing_is_told_from_one_that_is_only_read() -> None:
    """Every command that changes something says so."""
    reads = {
        "get",
        "describe",
        "logs",
        "events",
        "top",
        "explain",
        "api-resources",
        "version",
        "auth",
        "diff",
        "wait",
    }
    for finding, step in steps():
        words = shlex.split(step.command)
        if (
            words
            and words[0] == "kubectl"
            and words[1] not in reads | {"exec", "debug", "rollout", "run", "apply"}
        ):
            assert step.risk is not Risk.READ_ONLY, f"{finding.slug}: {step.command}"


def test_the_patterns_find_what_they_are_for() -> None:
    examples = {
        "U1": "docker system prune -a && kubectl delete pods --all",
        "U4": "kubectl exec x -- python -c 'torch.cuda.empty_cache()'",
        "S20": "kubectl run test --image=x --limits=nvidia.com/gpu=1",
        "M10": "load_in_8bit=True",
        "D1": "apiVersion: resource.k8s.io/v1alpha2",
        "D2": "kind: GpuClaimParameters",
        "N1": "NCCL_TIMEOUT=3600",
        "N2": "NCCL_IB_RETRY_CNT=10",
        "N3": "NCCL_TREE_THRESHOLD=0",
        "N8": "metadata.annotations['apps.kubernetes.io/pod-index']",
        "F5": "ray.io/v1alpha1",
        "F11": "HUGGING_FACE_HUB_TOKEN",
        "F18": "VLLM_CPU_KVCACHE_SPACE=40",
        "F27": "this fixes 85 % of them, in 90% of cases",
        "S1": "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Job",
        "S21": "nvidia/cuda:12.1-base-ubuntu20.04",
        "U2": "kubectl rollout restart daemonset/nvidia-device-plugin-daemonset",
    }
    for number, text in examples.items():
        patterns = [wrong.pattern for wrong in WRONG if wrong.number == number]
        assert any(re.search(pattern, text, re.IGNORECASE) for pattern in patterns), number
