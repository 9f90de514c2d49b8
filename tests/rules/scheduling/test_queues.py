"""Jobs that queues and pod groups hold back: each with its reason, and a turn in a queue left alone."""

import shlex
from typing import Any

import pytest
import yaml

from diagnostics.findings import Hit, Severity
from diagnostics.gangs import gangs_of
from diagnostics.snapshot import (
    Condition,
    Flavor,
    Node,
    OwnerKey,
    Pod,
    PodGroup,
    PodSet,
    Queue,
    QueuedWorkload,
    ServedApi,
    Source,
)
from tests.builders import ago, event, node, owner, pending_pod, pod, statuses
from tests.rules.scheduling.waiting import SILENT, hit, hits

GPU = "nvidia.com/gpu"
UNUSED = (
    "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor a, "
    "8 more needed"
)
TOO_LARGE = (
    "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor a, "
    "request > maximum capacity (16 > 8)"
)
GROUPS = (ServedApi("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup"),)


def queued(message: str = UNUSED, reason: str = "Pending", **fields: Any) -> QueuedWorkload:
    """A suspended Job's workload of 2 x 8 GPUs, 40 minutes old, without quota."""
    defaults: dict[str, Any] = {
        "namespace": "research",
        "name": "job-train-1a2b3",
        "owners": (owner(),),
        "created_at": ago(minutes=40),
        "queue": "team",
        "pod_sets": (PodSet("main", 2, {GPU: 8.0}),),
        "conditions": (Condition("QuotaReserved", "False", reason, message, ago(minutes=40)),),
    }
    return QueuedWorkload(**(defaults | fields))


def queues(**fields: Any) -> tuple[Queue, Queue]:
    """A LocalQueue and its ClusterQueue with 16 GPUs, 12 of them reserved."""
    cluster: dict[str, Any] = {
        "flavors": (Flavor("a", {GPU: 16.0}),),
        "used": {GPU: 12.0},
        "conditions": (Condition("Active", "True"),),
    }
    return (
        Queue(system="kueue", kind="LocalQueue", namespace="research", name="team", parent="gpus"),
        Queue(system="kueue", kind="ClusterQueue", name="gpus", **(cluster | fields)),
    )


class TestSuspendedByKueue:
    def test_a_job_larger_than_its_queue_is_inadmissible(self) -> None:
        found = hit(node(), queued=(queued(TOO_LARGE),), queues=queues())

        assert (found.cause, found.severity, found.gpus) == ("kueue-inadmissible", None, 16)
        assert str(found.subject) == "Job research/train"
        assert "waits 40 min" in found.title
        values = {fact.label: fact.value for fact in found.evidence}
        assert values["Kueue says"] == TOO_LARGE
        assert values["quota in use"] == "nvidia.com/gpu 12 of 16"

    @pytest.mark.parametrize(
        "message",
        [
            UNUSED,
            UNUSED + ". Pending the preemption of 1 workload(s)",
            f"{UNUSED}, insufficient quota for nvidia.com/gpu in flavor b, request > maximum capacity (16 > 8)",
            'couldn\'t assign flavors to pod set main: topology "default" allows to fit only 1 out of 2 pod(s)',
            "",
        ],
    )
    def test_a_job_that_waits_its_turn_is_left_alone(self, message: str) -> None:
        assert not hits(node(), queued=(queued(message),), queues=queues())

    def test_a_turn_that_takes_longer_than_a_day_is_mentioned(self) -> None:
        waits = queued(created_at=ago(hours=30), conditions=())
        found = hit(node(), queued=(waits,), queues=queues())

        assert (found.cause, found.severity) == ("kueue-waits-its-turn", Severity.INFO)
        assert "queueing as designed" in found.summary

    @pytest.mark.parametrize(
        ("message", "cause"),
        [
            (TOO_LARGE, "kueue-inadmissible"),
            (
                "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor a, "
                "previously considered podsets requests (16) + current podset request (8) > maximum capacity (16)",
                "kueue-inadmissible",
            ),
            (f"{UNUSED}; {TOO_LARGE.replace('main', 'worker')}", "kueue-inadmissible"),
            ("LocalQueue team doesn't exist", "kueue-inadmissible"),
            ("ClusterQueue gpus doesn't exist", "kueue-inadmissible"),
            ("Workload namespace doesn't match ClusterQueue selector", "kueue-inadmissible"),
            (
                "couldn't assign flavors to pod set main: resource nvidia.com/gpu unavailable in ClusterQueue",
                "kueue-inadmissible",
            ),
            ("couldn't assign flavors to pod set main: flavor a not found", "kueue-inadmissible"),
            (
                "couldn't assign flavors to pod set main: untolerated taint {gpu present NoSchedule } in flavor a",
                "kueue-inadmissible",
            ),
        ],
    )
    def test_kueues_wordings(self, message: str, cause: str) -> None:
        assert hit(node(), queued=(queued(message),)).cause == cause

    def test_a_job_larger_than_a_queue_without_a_cohort_needs_no_words(self) -> None:
        assert hit(node(), queued=(queued(""),), queues=queues(flavors=(Flavor("a", {GPU: 8.0}),))).cause == (
            "kueue-inadmissible"
        )
        lent = queues(flavors=(Flavor("a", {GPU: 8.0}),), parent="all")
        assert not hits(node(), queued=(queued(""),), queues=lent)

    def test_a_queue_that_does_not_exist(self) -> None:
        found = hit(node(), queued=(queued("", queue="gone"),), queues=queues())

        assert (found.cause, "gone" in found.title) == ("kueue-inadmissible", True)

    @pytest.mark.parametrize(
        "stopped",
        [{"state": "Hold"}, {"conditions": (Condition("Active", "False", "FlavorNotFound", "no flavor"),)}],
    )
    def test_a_stopped_queue(self, stopped: dict[str, Any]) -> None:
        assert hit(node(), queued=(queued(),), queues=queues(**stopped)).cause == "queue-closed"

    def test_a_workload_that_is_switched_off(self) -> None:
        assert hit(node(), queued=(queued(is_active=False),)).cause == "kueue-deactivated"

    def test_quota_taken_back_because_pods_were_not_ready(self) -> None:
        conditions = (
            Condition("QuotaReserved", "False", "Pending", "", ago(minutes=20)),
            Condition("Evicted", "True", "PodsReadyTimeout", "", ago(minutes=20)),
        )
        found = hit(node(), queued=(queued(conditions=conditions),), queues=queues())

        assert found.cause == "kueue-pods-not-ready"
        assert "waits 20 min" in found.title

    def test_an_admission_check_that_has_not_passed(self) -> None:
        conditions = (Condition("QuotaReserved", "True", "QuotaReserved", "", ago(minutes=20)),)
        found = hit(node(), queued=(queued(conditions=conditions),))

        assert (found.cause, found.severity) == ("kueue-admission-check", Severity.INFO)

    @pytest.mark.parametrize("state", ["Admitted", "Finished"])
    def test_admitted_and_finished_workloads_are_not_reported(self, state: str) -> None:
        done = queued(TOO_LARGE, conditions=(Condition(state, "True"),))
        assert not hits(node(), queued=(done,), queues=queues())

    def test_a_young_job_and_one_without_gpus_are_not_reported(self) -> None:
        young = queued(TOO_LARGE, created_at=ago(minutes=2), conditions=())
        no_gpus = queued(TOO_LARGE, pod_sets=(PodSet("main", 2, {"cpu": 8.0}),))
        assert not hits(node(), queued=(young, no_gpus), queues=queues(flavors=(Flavor("a", {GPU: 1.0}),)))

    def test_nothing_is_said_without_pods_to_look_at(self) -> None:
        assert not hits(node(), queued=(queued(TOO_LARGE),), without={Source.PODS})

    def test_steps_look_at_the_queue_before_they_escalate(self) -> None:
        fix = hit(node(), queued=(queued(TOO_LARGE),), queues=queues()).fix

        commands = [shlex.split(step.command) for step in fix.steps if step.command]
        assert ["kubectl", "describe", "job", "-n", "research", "train"] in commands
        assert ["kubectl", "describe", "clusterqueues.kueue.x-k8s.io", "gpus"] in commands
        assert [step.kind for step in fix.steps] == ["diagnose", "diagnose", "diagnose", "verify", "escalate"]


class TestBehindKueuesGate:
    def gated(self, **fields: Any) -> Pod:
        defaults = SILENT | {
            "scheduling_gates": ("kueue.x-k8s.io/admission",),
            "labels": {"kueue.x-k8s.io/pod-group-name": "job-train-1a2b3"},
        }
        return pending_pod(**(defaults | fields))

    def test_the_gate_is_explained_by_the_workload(self) -> None:
        assert hit(node(), self.gated(), queued=(queued(TOO_LARGE),)).cause == "kueue-inadmissible"

    def test_a_pod_that_waits_its_turn_is_left_alone(self) -> None:
        assert not hits(node(), self.gated(), queued=(queued(),), queues=queues())

    def test_a_gate_without_a_workload_stays_a_gate(self) -> None:
        assert hit(node(), self.gated()).cause == "scheduling-gate"

    def test_another_gate_beside_kueues_is_named(self) -> None:
        gates = ("kueue.x-k8s.io/admission", "example.com/review")
        assert hit(node(), self.gated(scheduling_gates=gates), queued=(queued(),)).cause == "scheduling-gate"

    def test_each_job_is_told_once(self) -> None:
        gated = self.gated(owners=(owner(),), root=owner())
        assert len(hits(node(), gated, queued=(queued(TOO_LARGE),))) == 1


class TestAdmittedAndYetInPieces:
    ADMITTED = (Condition("QuotaReserved", "True"), Condition("Admitted", "True"))

    def parts(self, root: OwnerKey | None = None) -> tuple[Node | Pod, ...]:
        rooted = {"root": root, "owners": (root,)} if root else {}
        return (
            node("a"),
            node("b"),
            pod("x", node="a"),
            pod("y", node="b"),
            pending_pod(
                "worker-0", "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.", gpus=8, **rooted
            ),
        )

    def test_quota_counts_the_sum_and_not_the_nodes(self) -> None:
        found = hit(*self.parts(owner()), queued=(queued(conditions=self.ADMITTED),))

        assert found.cause == "gpu-fragmentation-across-nodes"
        assert "14 (a 7 and b 7)" in str(found.evidence)
        topology, flavor = yaml.safe_load_all(next(s.manifest for s in found.fix.steps if s.manifest))
        assert (topology["kind"], flavor["spec"]["topologyName"]) == (
            "Topology",
            topology["metadata"]["name"],
        )

    def test_without_a_queue_it_is_plain_fragmentation(self) -> None:
        assert hit(*self.parts(owner())).cause == "fragmented"


def volcano_group(**fields: Any) -> PodGroup:
    defaults: dict[str, Any] = {
        "system": "volcano",
        "namespace": "research",
        "name": "g",
        "owners": (OwnerKey("Job", "research", "moe", "batch.volcano.sh/v1alpha1"),),
        "created_at": ago(minutes=30),
        "min_member": 2,
        "min_resources": {GPU: 16.0},
        "queue": "team",
        "phase": "Pending",
    }
    return PodGroup(**(defaults | fields))


def volcano_queue(**fields: Any) -> Queue:
    return Queue(system="volcano", kind="Queue", name="team", **({"state": "Open"} | fields))


class TestVolcanoQueues:
    @pytest.mark.parametrize(
        ("queue", "cause"),
        [
            ({"state": "Closed"}, "volcano-queue-closed"),
            ({"state": "Closing"}, "volcano-queue-closed"),
            ({"capability": {GPU: 8.0}}, "volcano-job-larger-than-queue"),
            ({"capability": {GPU: 16.0}, "used": {GPU: 4.0}}, "volcano-queue-over-capability"),
            ({"deserved": {GPU: 8.0}, "used": {GPU: 8.0}}, "volcano-queue-over-deserved"),
        ],
    )
    def test_a_job_without_pods(self, queue: dict[str, Any], cause: str) -> None:
        found = hit(node(), pod_groups=(volcano_group(),), queues=(volcano_queue(**queue),))

        assert (found.cause, str(found.subject), found.gpus) == (cause, "Job research/moe", 16)
        assert found.fix.steps[0].command == "kubectl describe job.batch.volcano.sh -n research moe"

    def test_quota_that_only_volcanos_words_know_of(self) -> None:
        said = event("Unschedulable", "queue resource quota insufficient", "g", kind="PodGroup")
        group, queue = volcano_group(), volcano_queue()
        assert hit(node(), said, pod_groups=(group,), queues=(queue,)).cause == "volcano-queue-quota-used"
        assert not hits(node(), pod_groups=(group,), queues=(queue,))

    def test_a_queue_that_does_not_exist(self) -> None:
        groups = (volcano_group(queue="gone"),)
        assert hit(node(), pod_groups=groups, queues=(volcano_queue(),)).cause == "volcano-queue-missing"
        assert not hits(node(), pod_groups=groups)

    def test_a_queue_with_room_and_a_group_that_runs_are_left_alone(self) -> None:
        roomy = volcano_queue(capability={GPU: 32.0}, used={GPU: 16.0})
        assert not hits(node(), pod_groups=(volcano_group(),), queues=(roomy,))
        running = volcano_group(phase="Running")
        full = volcano_queue(capability={GPU: 16.0}, used={GPU: 16.0})
        assert not hits(node(), pod_groups=(running,), queues=(full,))

    def test_pods_of_a_closed_queue(self) -> None:
        waits = pending_pod(
            "w-0",
            "pod group is not ready, 1 Pending, 2 minAvailable",
            scheduler="volcano",
            annotations={"scheduling.k8s.io/group-name": "g"},
        )
        found = hit(node(), waits, pod_groups=(volcano_group(),), queues=(volcano_queue(state="Closed"),))
        assert found.cause == "volcano-queue-closed"


def gang_pods(count: int, **fields: Any) -> list[Pod]:
    defaults: dict[str, Any] = {"gpus": 8, "pod_group": "g", "message": "pod group is unschedulable"}
    return [pending_pod(f"w-{index}", **(defaults | fields)) for index in range(count)]


def native(least: int = 3) -> PodGroup:
    return PodGroup(system="native", namespace="research", name="g", min_member=least)


class TestPodGroups:
    def found(self, *parts: Any, groups: tuple[PodGroup, ...] = (), **fields: Any) -> list[Hit]:
        pods = [part for part in parts if isinstance(part, Pod)]
        gangs = gangs_of(pods, (), groups)
        return hits(*parts, *gangs, pod_groups=groups, apis=GROUPS, **fields)

    def test_a_gang_that_does_not_fit_as_a_whole(self) -> None:
        (found,) = self.found(node("a"), node("b"), *gang_pods(3), groups=(native(),))

        assert (found.cause, found.gpus, len(found.pods)) == ("gang-does-not-fit", 24, 3)
        assert "the free GPUs take 2 of them" in found.title
        assert "Not a GPU shortage" not in found.title

    def test_members_that_fit_one_by_one_are_counted_beside_each_other(self) -> None:
        (found,) = self.found(
            node("a", allocatable={"cpu": 6.0}), node("b"), *gang_pods(3, gpus=2), groups=(native(),)
        )
        assert found.cause == "gang-waiting"

    def test_a_gang_that_fits_only_waits(self) -> None:
        (found,) = self.found(node("a"), node("b"), node("c"), *gang_pods(3), groups=(native(),))
        assert found.cause == "gang-waiting"

    def test_a_group_that_does_not_exist(self) -> None:
        (found,) = self.found(node(), *gang_pods(1, **SILENT))

        assert found.cause == "pod-group-missing"
        assert "does not exist" in found.title

    def test_where_groups_were_not_read_nobody_answers(self) -> None:
        (found,) = hits(node(), *gang_pods(1, **SILENT), without={Source.CUSTOM})

        assert found.cause == "pod-group-missing"
        assert "nobody answers" in found.title

    def test_a_group_that_is_there_is_not_called_missing(self) -> None:
        (found,) = self.found(node(), *gang_pods(1, **SILENT), groups=(native(1),))
        assert found.cause == "no-scheduler"

    def test_a_group_with_fewer_pods_than_it_waits_for(self) -> None:
        (found,) = self.found(node("a"), node("b"), *gang_pods(2), groups=(native(4),))

        assert found.cause == "pod-group-too-few-pods"
        assert "waits for 4 pods, and only 2 exist" in found.title

    def test_the_coscheduling_plugins_words_are_enough(self) -> None:
        said = "0/3 nodes are available: 3 pre-filter pod w-0 cannot find enough sibling pods, current pods number: 2, "
        said += "minMember of group: 3."
        labels = {"scheduling.x-k8s.io/pod-group": "g"}
        (found,) = hits(node(), pending_pod("w-0", said, labels=labels))
        assert found.cause == "pod-group-too-few-pods"

    def test_not_all_pods_read_is_not_too_few(self) -> None:
        (found,) = self.found(
            node("a"), *gang_pods(2), groups=(native(4),), sources=statuses(partial={Source.PODS})
        )
        assert found.cause != "pod-group-too-few-pods"


def test_a_full_yunikorn_queue() -> None:
    waits = pending_pod("w-0", **SILENT, scheduler="yunikorn")
    said = event(
        "Informational",
        "Request 'a' does not fit in queue 'root.team' (requested map[nvidia.com/gpu:1], available map[])",
        "w-0",
        component="yunikorn",
    )
    found = hit(node(), waits, said)
    assert (found.cause, found.severity) == ("yunikorn-queue-quota", Severity.INFO)
    assert hit(node(), waits).cause == "no-scheduler"
