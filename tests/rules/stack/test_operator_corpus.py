"""Recorded cases of the GPU Operator get their right cause, also with names, numbers, order and versions changed."""

import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnostics.findings import Finding
from diagnostics.rules import diagnose
from tests.corpus.operator_pictures import picture

CASES: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text())
    for path in sorted((Path(__file__).parents[2] / "corpus" / "stack").glob("*.yaml"))
}
Mutation = Callable[[str, Random], str]
_USUAL = (
    "Creating directory NVIDIA-Linux-x86_64-550.127.08",
    "Verifying archive integrity... OK",
    "WARNING: Unable to determine the default X library path. The path /tmp/null/lib will be used.",
    'time="2026-01-05T12:13:32Z" level=info msg="Starting OS watcher."',
    "Unable to determine if Secure Boot is enabled: No such file or directory",
    "warning: the compiler differs from the one used to build the kernel",
    "Getting current value of the 'nvidia.com/gpu.deploy.device-plugin' node label",
)


def renamed(text: str, random: Random) -> str:
    """Other suffixes of pods, PCI addresses, kernel symbols and source lines."""
    letters = "bcdfghjklmnpqrstvwxz2456789"
    text = re.sub(
        r"^([a-z-]+-)\w{5}(?= +\d/)", lambda m: m[1] + "".join(random.choices(letters, k=5)), text, flags=re.M
    )
    text = re.sub(r"\b[0-9A-F]{2}:00\.0", lambda _: f"{random.randrange(1, 255):02X}:00.0", text)
    text = re.sub(r"(\.go:)\d+", lambda m: f"{m[1]}{random.randrange(20, 400)}", text)
    return text.replace("rcu_read_unlock_strict", random.choice(["rcu_read_lock", "pfn_valid", "dma_buf_fd"]))


def numbered(text: str, random: Random) -> str:
    """Other counts: GPUs of the node, restarts, times in the log."""
    gpus = random.choice([1, 2, 4, 8, 10, 16])
    text = text.replace('nvidia.com/gpu: "16"', f'nvidia.com/gpu: "{gpus}"')
    text = re.sub(r"CrashLoopBackOff +\d+", lambda _: f"CrashLoopBackOff   {random.randrange(5, 5000)}", text)
    text = re.sub(
        r"\b([IWE])\d{4} \d\d:\d\d:\d\d\.\d{6}",
        lambda m: (
            f"{m[1]}{random.randrange(101, 1231):04d} 07:{random.randrange(60):02d}:11.{random.randrange(10**6):06d}"
        ),
        text,
    )
    return text.replace("[0008]", f"[{random.randrange(2, 99):04d}]")


def reordered(text: str, random: Random) -> str:
    """Rows of the listing in another order."""
    lines = text.splitlines()
    rows = [i for i, line in enumerate(lines) if re.search(r" \d+/\d+ ", line)]
    shuffled = random.sample(rows, len(rows))
    moved = {old: lines[new] for old, new in zip(rows, shuffled, strict=True)}
    return "\n".join(moved.get(i, line) for i, line in enumerate(lines)) + "\n"


def noisy(text: str, random: Random) -> str:
    """Usual lines among those of the log."""
    lines = text.splitlines()
    if not lines[0].startswith("# nvidia-"):
        return text
    for _ in range(random.randrange(8)):
        lines.insert(random.randrange(1, len(lines) + 1), random.choice(_USUAL))
    return "\n".join(lines) + "\n"


def reworded(text: str, random: Random) -> str:
    """The same thing as other releases and distributions say it."""
    others = {
        "Could not resolve Linux kernel version": (
            "Error: Unable to find a match: kernel-headers-5.14.0-427.el9.x86_64 kernel-devel-5.14.0-427.el9.x86_64",
            "E: Unable to locate package linux-headers-6.8.0-1021-aws",
            "make[1]: *** /lib/modules/6.5.0-44-generic/build: No such file or directory.  Stop.",
        ),
        "could not load NVML library: libnvidia-ml.so.1: cannot open shared object file: No such file or directory": (
            "could not load NVML library",
            "ERROR_LIBRARY_NOT_FOUND",
        ),
        "In use by another client": ("is currently in use by another process.",),
    }
    for said, variants in others.items():
        text = text.replace(said, random.choice((said, *variants)))
    return text


def aged(text: str, random: Random) -> str:
    """Other ages of what has long been there."""
    return text.replace("3d20h", random.choice(["45m", "6h12m", "12d", "3d20h"]))


MUTATIONS: tuple[Mutation, ...] = (renamed, numbered, reordered, noisy, reworded, aged)


def findings(case: str, text: str) -> list[Finding]:
    diagnosis = diagnose(picture(CASES[case]["kind"], text))
    assert diagnosis.failed == ()
    # Window and metrics are no part of these cases: rules of the other families have their own.
    return [f for f in diagnosis.findings if f.code.startswith("GPU2")]


def roots(case: str, text: str) -> list[str]:
    return [f.cause for f in findings(case, text) if not f.caused_by]


def expected(case: str) -> list[str]:
    cause = CASES[case]["cause"]
    return [] if cause == "none" else [cause]


@pytest.mark.parametrize("case", CASES)
def test_a_case_has_its_cause(case: str) -> None:
    assert roots(case, CASES[case]["input"]) == expected(case)


@pytest.mark.parametrize("case", CASES)
@given(seed=st.integers(min_value=0, max_value=2**32))
@settings(max_examples=25, deadline=None)
def test_a_case_keeps_its_cause_when_changed(case: str, seed: int) -> None:
    text, random = CASES[case]["input"], Random(seed)
    for mutation in MUTATIONS:
        text = mutation(text, random)
    assert roots(case, text) == expected(case), text


@pytest.mark.parametrize("case", [c for c in CASES if CASES[c]["cause"] != "none"])
def test_a_case_shows_its_evidence_and_reads_before_it_changes(case: str) -> None:
    (finding,) = [f for f in findings(case, CASES[case]["input"]) if not f.caused_by]
    assert all(e.source for e in finding.evidence)
    assert finding.fix.steps[0].kind == "diagnose"
    assert {"fix", "restore"} & {s.kind for s in finding.fix.steps}
    assert {"verify", "escalate"} <= {s.kind for s in finding.fix.steps}


def test_what_a_case_must_not_be_taken_for() -> None:
    found = findings("driver_cannot_resolve_kernel", CASES["driver_cannot_resolve_kernel"]["input"])
    (driver,) = [finding for finding in found if not finding.caused_by]
    assert driver.title.startswith("Driver fails")
    assert all(finding.caused_by == (driver.id,) for finding in found if finding is not driver)
    (mig,) = findings("mig_reset_blocked", CASES["mig_reset_blocked"]["input"])
    assert any(e.value.startswith("none: it is no workload") for e in mig.evidence)
    (zero,) = findings("allocatable_zero", CASES["allocatable_zero"]["input"])
    assert "nobody has used them up" in zero.summary


def decisive(case: str, old: str, new: str) -> list[str]:
    text = CASES[case]["input"]
    assert old in text
    return roots(case, text.replace(old, new))


def test_one_decisive_fact_changes_the_answer() -> None:
    """The twins of the cases: what makes each of them another case, or none."""
    assert decisive("driver_cannot_resolve_kernel", "Could not resolve Linux", "Resolved Linux") == [
        "driver-crash-loop"
    ]
    assert decisive("allocatable_zero", 'gpu: "0"', 'gpu: "16"') == []
    assert decisive("pod_before_plugin", "made 3m ago", "made 90d ago") == ["gpus-given-away-before"]
    assert decisive(
        "validator_pods_completed", "0/1   Completed   0   14m", "0/1   CrashLoopBackOff   9   14m"
    ) == ["cuda-validator-crash-loop"]
    assert decisive("new_node_not_advertising", "made 70s ago", "made 40m ago") == ["node-not-managed"]
