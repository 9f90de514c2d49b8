"""What keeps a pod of the simulated cluster waiting is named by its cause, not only found."""

import pytest

from tests.simulated import diagnosed

CAUSES = {
    "kueue-deactivated": "kueue-deactivated",
    "kueue-queue-stopped": "queue-closed",
    "limit-range": "limit-range-violated",
    "pending-affinity": "affinity-excludes-gpu-node",
    "pending-attach-limit": "volume-attach-limit",
    "pending-claim-missing": "volume-claim-missing",
    "pending-crashing-holder": "crashloop-pod-reserves-gpu",
    "pending-late-claim": "selector-matches-no-node",
    "pending-local-volume": "no-volume-to-bind",
    "pending-provisioner": "volume-provisioner-silent",
    "pending-provisioning": "volume-provisioning-failed",
    "pending-storage-class": "storage-class-missing",
    "pending-two-containers": "pod-total-gpu-request-exceeds-node",
    "pending-volume-in-use": "volume-in-use",
    "pending-volume-zone": "volume-in-another-zone",
    "pod-group-too-small": "pod-group-too-few-pods",
    "priority-class-missing": "priority-class-missing",
    "quota-of-cpu": "namespace-resource-quota-exceeded",
    "runtime-class-missing": "runtime-class-missing",
    "volcano-job-too-large": "volcano-job-larger-than-queue",
    "volcano-queue-full": "volcano-queue-over-capability",
    "yunikorn-queue-full": "yunikorn-queue-quota",
}


@pytest.mark.parametrize("fault", CAUSES)
def test_a_simulated_fault_gets_its_cause(fault: str) -> None:
    (found,) = (f for f in diagnosed(fault).findings if f.slug == "pending-gpu-pod")
    assert found.cause == CAUSES[fault]


def test_a_crashing_holder_explains_the_pod_that_waits() -> None:
    findings = {finding.slug: finding for finding in diagnosed("pending-crashing-holder").findings}
    assert findings["pending-gpu-pod"].caused_by == (findings["stuck-holder"].id,)


def test_a_quota_of_the_simulated_cluster_is_evidence() -> None:
    (found,) = diagnosed("quota-of-cpu").findings
    assert "8 of 16" in {fact.value for fact in found.evidence}


@pytest.mark.parametrize(
    ("fault", "cause", "taker"),
    [
        ("stranded-gpus", "cpu-taken-by-pods-without-gpus", "tokenise"),
        ("stranded-by-memory", "memory-taken-by-pods-without-gpus", "shuffle"),
        ("stranded-by-gpu-pods", "cpu-taken-by-gpu-pods", "decode"),
    ],
)
def test_stranded_gpus_are_blamed_on_those_who_take_the_rest(fault: str, cause: str, taker: str) -> None:
    (found,) = diagnosed(fault).findings
    assert found.cause == cause
    assert taker in found.summary


def test_a_job_that_is_pushed_out_again_and_again() -> None:
    (found,) = diagnosed("preemption-loop").findings
    assert found.cause == "victim-comes-back"
    assert "preempted 5 times within 39 min" in found.title


def test_room_that_is_made_for_a_pod_that_does_not_start() -> None:
    (found,) = (f for f in diagnosed("preemptor-never-starts").findings if f.slug == "preemption-loop")
    assert found.cause == "preemptor-never-starts"
    assert "video/render-now" in found.title
