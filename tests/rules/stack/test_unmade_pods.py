"""GPU202: operator pods that the API server refuses to make, where no pod could fail."""

from typing import Any

import pytest

from diagnostics.findings import Finding
from diagnostics.rules import diagnose
from diagnostics.snapshot import Workload
from tests.builders import ago, event, node, snapshot

QUOTA = (
    'Error creating: pods "nvidia-driver-daemonset-x" is forbidden: insufficient quota to match these scopes: '
    "[{PriorityClass In [system-node-critical system-cluster-critical]}]"
)


def findings(
    message: str = QUOTA, *, ready: int = 0, name: str = "nvidia-driver-daemonset", **fields: Any
) -> list[Finding]:
    daemons = Workload(
        kind="DaemonSet",
        namespace="gpu-operator",
        name=name,
        api_version="apps/v1",
        uid="ds",
        replicas=2,
        ready=ready,
    )
    refusal = event("FailedCreate", message, name, namespace="gpu-operator", kind="DaemonSet", **fields)
    found = diagnose(snapshot(node(), refusal, workloads=(daemons,))).findings
    return [f for f in found if f.slug == "operator-component-failing"]


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (QUOTA, "quota-refuses-operator"),
        (
            'Error creating: pods "x" is forbidden: violates PodSecurity "baseline:latest": privileged',
            "pod-security-refuses-operator",
        ),
        (
            'Error creating: pods "x" is forbidden: pod rejected: RuntimeClass "nvidia" not found',
            "runtime-class-missing",
        ),
        (
            'Error creating: admission webhook "policy.example" denied the request: no',
            "admission-refuses-operator",
        ),
    ],
)
def test_a_refusal_is_told_by_its_words(message: str, cause: str) -> None:
    (finding,) = findings(message)
    assert (finding.cause, finding.subject.kind, finding.nodes) == (cause, "DaemonSet", ("gpu-1",))
    assert finding.fix.steps[0].risk == "read-only"


def test_an_old_refusal_other_words_and_a_whole_daemonset_are_left_alone() -> None:
    assert not findings(last_at=ago(hours=3))
    assert not findings("Error creating: context deadline exceeded")
    assert not findings(ready=2)
    assert not findings(name="web")
