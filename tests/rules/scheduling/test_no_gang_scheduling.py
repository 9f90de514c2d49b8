"""Collective jobs whose pods are placed one by one: where that costs something, where it may, and who is left alone."""

import json
from typing import Any

import pytest
import yaml

from diagnostics.findings import Hit, Severity
from diagnostics.gangs import gangs_of
from diagnostics.limits import Limits
from diagnostics.masking import MASKED
from diagnostics.rules.scheduling.no_gang_scheduling import check
from diagnostics.snapshot import OwnerKey, Pod, Queue, ServedApi, Snapshot, Workload
from tests.builders import ago, container, gpu, node, owner, pending_pod, pod, snapshot, window

GPU = "nvidia.com/gpu"
COMMAND = ("torchrun", "--nnodes=4", "train.py")
KUEUE = ServedApi("kueue.x-k8s.io", "v1beta1", "workloads", "Workload")
VOLCANO = ServedApi("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
COSCHEDULING = ServedApi("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
NATIVE = ServedApi("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup")
JOBSET = ServedApi("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "train", "batch.kubernetes.io/job-name": "train", "controller-uid": "u"}},
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "i", "resources": {"limits": {GPU: 4}}}],
    },
}


def runs(*names: str, root: OwnerKey | None = None, **fields: Any) -> list[Pod]:
    spec = (container(gpus=4, command=COMMAND),)
    defaults: dict[str, Any] = {"root": root or owner(), "containers": spec, "started_at": ago(minutes=40)}
    return [pod(name, **(defaults | fields)) for name in names]


def waits(*names: str, root: OwnerKey | None = None, **fields: Any) -> list[Pod]:
    spec = (container(gpus=4, command=COMMAND, state="", running_since=None, is_ready=False),)
    defaults: dict[str, Any] = {"root": root or owner(), "containers": spec}
    return [pending_pod(name, **(defaults | fields)) for name in names]


def job(kind: str = "Job", version: str = "batch/v1", **spec: Any) -> Workload:
    own = spec or {"parallelism": 4, "template": TEMPLATE}
    return Workload(
        kind=kind,
        namespace="research",
        name="train",
        api_version=version,
        replicas=4,
        completions=4,
        spec=own,
    )


def seen(*parts: Any, workload: Workload | None = None, **fields: Any) -> Snapshot:
    workloads = (workload or job(),)
    pods = [part for part in parts if isinstance(part, Pod)]
    return snapshot(*parts, workloads=workloads, gangs=gangs_of(pods, workloads), **fields)


def hits(*parts: Any, **fields: Any) -> list[Hit]:
    return [found for found in check(seen(*parts, **fields), Limits()) if isinstance(found, Hit)]


def hit(*parts: Any, **fields: Any) -> Hit:
    (found,) = hits(*parts, **fields)
    return found


def partial(**fields: Any) -> Hit:
    return hit(node(), *runs("a", "b"), *waits("c", "d"), **fields)


def documents(found: Hit, word: str) -> list[Any]:
    """The manifest of the variant with this word in its title."""
    (step,) = [s for s in found.fix.steps if s.manifest and s.title.endswith(f"with {word}")]
    return list(yaml.safe_load_all(step.manifest))


def test_a_part_that_holds_gpus_while_the_rest_waits() -> None:
    found = partial()

    assert (found.cause, found.severity, found.gpus) == ("no-gang-scheduling", None, 8)
    assert "2 of 4 members hold 8 GPUs, and the rest waits 20 min" in found.title
    assert set(found.pods) == {f"research/{name}" for name in "abcd"}


def test_a_job_that_waits_as_a_whole_is_at_risk_and_no_more() -> None:
    full = pod("holder", gpus=8)
    found = hit(node(), full, *waits("a", "b", "c", "d"))

    assert (found.cause, found.severity) == ("may-start-in-part", Severity.INFO)
    assert found.waste_gpus is None


def test_a_job_under_a_gang_scheduler_or_a_queue_is_left_alone() -> None:
    each: tuple[dict[str, Any], ...] = (
        {"scheduler": "volcano"},
        {"labels": {"kueue.x-k8s.io/queue-name": "team"}},
        {"labels": {"scheduling.x-k8s.io/pod-group": "g"}},
        {"pod_group": "g"},
        {"annotations": {"yunikorn.apache.org/task-groups": "[]"}},
    )
    for fields in each:
        assert not hits(node(), *runs("a", "b", **fields), *waits("c", "d", **fields))


def test_a_job_of_which_all_members_run_is_left_alone() -> None:
    assert not hits(node(), node("gpu-2"), *runs("a", "b"), *runs("c", "d", node="gpu-2"))


def test_members_that_wait_for_something_else_are_not_its_matter() -> None:
    tainted = "0/1 nodes are available: 1 node(s) had volume node affinity conflict."
    assert not hits(node(), *runs("a", "b"), *waits("c", "d", message=tainted))


def test_servers_without_a_sign_of_collective_work_are_left_alone() -> None:
    spec = (container(gpus=4),)
    assert not hits(node(), *runs("a", "b", containers=spec), *waits("c", containers=spec))


def test_members_that_are_only_just_waiting_are_not_reported() -> None:
    assert not hits(node(), *runs("a", "b"), *waits("c", "d", created_at=ago(minutes=8)))
    assert not hits(node(), pod("holder", gpus=8), *waits("a", "b", created_at=ago(minutes=3)))


def test_an_elastic_job_with_enough_members_is_left_alone() -> None:
    elastic = ("torchrun", "--nnodes=2:4", "train.py")
    spec = (container(gpus=4, command=elastic),)
    assert not hits(node(), *runs("a", "b", containers=spec), *waits("c", "d", containers=spec))


def test_held_gpus_that_are_at_work_are_left_alone() -> None:
    busy = [gpu(i, holders=(f"research/{name}",), window=window()) for i, name in enumerate("ab")]
    assert not hits(node(), *runs("a", "b"), *waits("c", "d"), *busy)


def test_without_nodes_a_shortage_is_read_from_the_schedulers_words() -> None:
    assert hit(*runs("a", "b"), *waits("c", "d")).cause == "no-gang-scheduling"


def test_nothing_is_offered_that_is_not_installed() -> None:
    found = partial()

    assert not [step for step in found.fix.steps if step.manifest]
    assert "no queue and no gang scheduler" in found.fix.steps[-1].why


def test_priority_classes_alone_are_no_native_gang_scheduling() -> None:
    classes = ServedApi("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass")
    assert not [step for step in partial(apis=(classes,)).fix.steps if step.manifest]


def test_kueue_takes_a_label_with_a_queue_of_the_namespace() -> None:
    queue = Queue(system="kueue", kind="LocalQueue", namespace="research", name="team-a", parent="gpus")
    (document,) = documents(partial(apis=(KUEUE,), queues=(queue,)), "Kueue")

    assert document == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train",
            "namespace": "research",
            "labels": {"kueue.x-k8s.io/queue-name": "team-a"},
        },
    }


def test_volcano_gets_a_job_of_its_own_from_the_jobs_own_template() -> None:
    (document,) = documents(partial(apis=(VOLCANO,)), "Volcano")

    assert (document["apiVersion"], document["kind"]) == ("batch.volcano.sh/v1alpha1", "Job")
    spec = document["spec"]
    assert (spec["minAvailable"], spec["queue"], spec["schedulerName"]) == (4, "default", "volcano")
    (task,) = spec["tasks"]
    assert task["replicas"] == 4
    assert task["template"] == {"metadata": {"labels": {"app": "train"}}, "spec": TEMPLATE["spec"]}


def test_a_job_may_stay_a_job_under_volcano_with_a_pod_group_of_its_size() -> None:
    group, patch = documents(partial(apis=(VOLCANO,)), "a PodGroup of Volcano")

    assert (group["kind"], group["spec"]["minMember"]) == ("PodGroup", 4)
    template = patch["spec"]["template"]
    assert template["metadata"]["annotations"] == {"scheduling.k8s.io/group-name": group["metadata"]["name"]}
    assert template["spec"] == {"schedulerName": "volcano"}


def test_a_conversion_keeps_what_the_job_says_about_its_end() -> None:
    own: dict[str, Any] = {
        "backoffLimit": 2,
        "ttlSecondsAfterFinished": 60,
        "activeDeadlineSeconds": 900,
    }
    workload = job(parallelism=4, **own, selector={"matchLabels": {"a": "b"}}, template=TEMPLATE)
    found = partial(apis=(VOLCANO, KUEUE, JOBSET), workload=workload)
    (volcano,), (job_set,) = documents(found, "Volcano"), documents(found, "JobSet and Kueue")

    assert (volcano["spec"]["maxRetry"], volcano["spec"]["ttlSecondsAfterFinished"]) == (2, 60)
    assert job_set["spec"]["failurePolicy"] == {"maxRestarts": 2}
    inner = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert (inner["activeDeadlineSeconds"], inner["backoffLimit"]) == (900, 0)
    assert not inner.keys() & {"selector", "ttlSecondsAfterFinished"}


def test_masked_values_are_pointed_out() -> None:
    secret: dict[str, Any] = {"spec": {**TEMPLATE["spec"], "x": MASKED}}
    found = partial(apis=(VOLCANO,), workload=job(parallelism=4, template=secret))
    assert MASKED in next(step.why for step in found.fix.steps if step.title.endswith("with Volcano"))


def test_other_kinds_get_a_pod_group_and_a_patch_of_each_template() -> None:
    root = OwnerKey("PyTorchJob", "research", "train", "kubeflow.org/v1", "uid")
    specs = {"Master": {"template": TEMPLATE}, "Worker": {"replicas": 3, "template": TEMPLATE}}
    workload = job("PyTorchJob", "kubeflow.org/v1", pytorchReplicaSpecs=specs)
    found = hit(
        node(), *runs("a", "b", root=root), *waits("c", "d", root=root), workload=workload, apis=(VOLCANO,)
    )
    group, patch = documents(found, "Volcano")

    assert (group["apiVersion"], group["spec"]["minMember"]) == ("scheduling.volcano.sh/v1beta1", 4)
    assert patch["kind"] == "PyTorchJob"
    parts = patch["spec"]["pytorchReplicaSpecs"]
    assert parts.keys() == {"Master", "Worker"}
    for part in parts.values():
        template = part["template"]
        assert template["spec"] == {"schedulerName": "volcano"}
        assert template["metadata"]["annotations"] == {
            "scheduling.k8s.io/group-name": group["metadata"]["name"]
        }


def test_items_of_a_list_are_named_and_nothing_else_of_them_is_touched() -> None:
    root = OwnerKey("JobSet", "research", "train", "jobset.x-k8s.io/v1alpha2", "uid")
    jobs = [
        {"name": "driver", "template": {"spec": {"template": TEMPLATE}}},
        {"name": "workers", "template": {"spec": {"parallelism": 3, "template": TEMPLATE}}},
    ]
    workload = job("JobSet", "jobset.x-k8s.io/v1alpha2", replicatedJobs=jobs)
    parts = (node(), *runs("a", "b", root=root), *waits("c", "d", root=root))
    group, patch = documents(
        hit(*parts, workload=workload, apis=(NATIVE,)), "a PodGroup of Kubernetes itself"
    )

    assert group["apiVersion"] == "scheduling.k8s.io/v1alpha2"
    assert group["spec"] == {"schedulingPolicy": {"gang": {"minCount": 4}}}
    change = {"spec": {"schedulingGroup": {"podGroupName": "train"}}}
    assert patch["spec"]["replicatedJobs"] == [
        {"name": name, "template": {"spec": {"template": change}}} for name in ("driver", "workers")
    ]


def test_the_coscheduling_plugin_gets_a_label_and_its_scheduler() -> None:
    other = pod("x", labels={"scheduling.x-k8s.io/pod-group": "y"}, scheduler="gang-scheduler", gpus=0)
    found = hit(node(), other, *runs("a", "b"), *waits("c", "d"), apis=(COSCHEDULING,))
    group, patch = documents(found, "coscheduling")

    assert (group["apiVersion"], group["spec"]["minMember"]) == ("scheduling.x-k8s.io/v1alpha1", 4)
    template = patch["spec"]["template"]
    assert template["spec"]["schedulerName"] == "gang-scheduler"
    assert template["metadata"]["labels"] == {"scheduling.x-k8s.io/pod-group": "train"}


def test_yunikorn_is_known_by_its_pods_and_gets_a_task_group() -> None:
    scheduler = pod("yunikorn-scheduler-7d", "yunikorn", gpus=0)
    found = hit(node(), scheduler, *runs("a", "b"), *waits("c", "d"))
    (patch,) = documents(found, "YuniKorn")

    notes = patch["spec"]["template"]["metadata"]["annotations"]
    (task,) = json.loads(notes["yunikorn.apache.org/task-groups"])
    assert (task["minMember"], task["minResource"][GPU]) == (4, "4")
    assert notes["yunikorn.apache.org/task-group-name"] == task["name"]


def test_a_job_set_is_offered_where_kueue_admits_it() -> None:
    assert not [s for s in partial(apis=(JOBSET,)).fix.steps if s.manifest]
    (document,) = documents(partial(apis=(KUEUE, JOBSET)), "JobSet and Kueue")

    assert document["apiVersion"] == "jobset.x-k8s.io/v1alpha2"
    (part,) = document["spec"]["replicatedJobs"]
    assert part["template"]["spec"]["parallelism"] == 4
    assert "kueue.x-k8s.io/queue-name" in document["metadata"]["labels"]


def test_all_that_is_installed_is_offered_and_reading_comes_first() -> None:
    found = partial(apis=(KUEUE, VOLCANO, COSCHEDULING, NATIVE))

    assert len([s for s in found.fix.steps if s.manifest]) == 5
    assert [s.kind for s in found.fix.steps] == ["diagnose"] * 2 + ["fix"] * 6 + ["restore", "verify"]


def test_groups_of_a_leader_worker_set_are_not_put_into_one_pod_group() -> None:
    root = OwnerKey("LeaderWorkerSet", "research", "train", "leaderworkerset.x-k8s.io/v1", "uid")
    labels = {"leaderworkerset.sigs.k8s.io/name": "train", "leaderworkerset.sigs.k8s.io/group-index": "0"}
    workload = job(
        "LeaderWorkerSet",
        "leaderworkerset.x-k8s.io/v1",
        leaderWorkerTemplate={"size": 2, "workerTemplate": TEMPLATE},
    )
    found = hit(
        node(gpus=4),
        *runs("a", root=root, labels=labels),
        *waits("b", root=root, labels=labels),
        workload=workload,
        apis=(VOLCANO, NATIVE),
    )
    assert not [s for s in found.fix.steps if s.manifest]


@pytest.mark.parametrize("name", ["x'; rm -rf /", "<b>", "a\nb", "--flag"])
def test_hostile_names_stay_strings(name: str) -> None:
    root = OwnerKey("Job", "research", name, "batch/v1", "uid")
    pods = [*runs("a", "b", root=root), *waits("c", "d", root=root)]
    found = hit(node(), *pods, apis=(KUEUE, VOLCANO, COSCHEDULING, NATIVE))
    for step in found.fix.steps:
        for document in yaml.safe_load_all(step.manifest) if step.manifest else ():
            assert document["metadata"]["name"] == name
    assert "\n" not in found.title
