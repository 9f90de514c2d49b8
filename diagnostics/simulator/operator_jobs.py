"""Jobs of operators: how a PyTorchJob, a JobSet, a LeaderWorkerSet and a Volcano Job name, label and own their pods."""

from dataclasses import dataclass

from diagnostics.simulator.identity import suffix, uuid_of
from diagnostics.simulator.workloads import Json, SimPod, Workload

ROLE = "workers"
"""Of a JobSet's only replicated job."""


@dataclass(frozen=True)
class JobKind:
    kind: str
    """As the API calls it."""
    api_version: str
    plural: str


KINDS = {
    "PyTorchJob": JobKind("PyTorchJob", "kubeflow.org/v1", "pytorchjobs"),
    "JobSet": JobKind("JobSet", "jobset.x-k8s.io/v1alpha2", "jobsets"),
    "LeaderWorkerSet": JobKind("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", "leaderworkersets"),
    "VolcanoJob": JobKind("Job", "batch.volcano.sh/v1alpha1", "jobs"),
}
"""By the kind of a `Workload`; Volcano's Job shares its name with Kubernetes' own."""


def child_job(workload: Workload) -> str:
    """A JobSet's Job."""
    return f"{workload.name}-{ROLE}-0"


def child_uid(workload: Workload, kind: str, name: str) -> str:
    return uuid_of(workload.seed, kind, workload.namespace, name)


def pod_group(workload: Workload) -> str:
    """Volcano names a Job's PodGroup after the Job and its UID."""
    return f"{workload.name}-{workload.uid}"


def group_and_worker(workload: Workload, key: object) -> tuple[int, int]:
    """Of a LeaderWorkerSet's pod: its group, and its place in it, 0 for the leader."""
    return divmod(int(str(key)), workload.group_size)


def pod_name(workload: Workload, key: object) -> str:
    """Of the pod with this index."""
    name = workload.name
    match workload.kind:
        case "PyTorchJob":
            return f"{name}-master-0" if str(key) == "0" else f"{name}-worker-{int(str(key)) - 1}"
        case "JobSet":
            return f"{child_job(workload)}-{key}-{suffix(5, workload.seed, workload.namespace, name, key)}"
        case "LeaderWorkerSet":
            group, worker = group_and_worker(workload, key)
            return f"{name}-{group}-{worker}" if worker else f"{name}-{group}"
    return f"{name}-worker-{key}"


def owner_of(pod: SimPod) -> tuple[str, str, str, str]:
    """API version, kind, name and UID of the pod's controller."""
    workload = pod.workload
    match workload.kind:
        case "JobSet":
            name = child_job(workload)
            return "batch/v1", "Job", name, child_uid(workload, "Job", name)
        case "LeaderWorkerSet":
            group, worker = group_and_worker(workload, pod.key)
            name = f"{workload.name}-{group}" if worker else workload.name
            return "apps/v1", "StatefulSet", name, child_uid(workload, "StatefulSet", name)
    kind = KINDS[workload.kind]
    return kind.api_version, kind.kind, workload.name, workload.uid


def labels_of(pod: SimPod) -> dict[str, str]:
    workload, key = pod.workload, pod.key
    match workload.kind:
        case "PyTorchJob":
            is_master = key == "0"
            return {
                "training.kubeflow.org/job-name": workload.name,
                "training.kubeflow.org/operator-name": "pytorchjob-controller",
                "training.kubeflow.org/replica-type": "master" if is_master else "worker",
                "training.kubeflow.org/replica-index": "0" if is_master else str(int(key) - 1),
            }
        case "JobSet":
            return {
                "batch.kubernetes.io/job-name": child_job(workload),
                "batch.kubernetes.io/job-completion-index": key,
                "jobset.sigs.k8s.io/jobset-name": workload.name,
                "jobset.sigs.k8s.io/replicatedjob-name": ROLE,
                "jobset.sigs.k8s.io/job-index": "0",
            }
        case "LeaderWorkerSet":
            group, worker = group_and_worker(workload, key)
            return {
                "leaderworkerset.sigs.k8s.io/name": workload.name,
                "leaderworkerset.sigs.k8s.io/group-index": str(group),
                "leaderworkerset.sigs.k8s.io/worker-index": str(worker),
            }
        case "VolcanoJob":
            return {
                "volcano.sh/job-name": workload.name,
                "volcano.sh/job-namespace": workload.namespace,
                "volcano.sh/queue-name": workload.queue,
                "volcano.sh/task-spec": "worker",
                "volcano.sh/task-index": key,
            }
    return {}


def annotations_of(pod: SimPod) -> dict[str, str]:
    workload = pod.workload
    match workload.kind:
        case "LeaderWorkerSet":
            group, worker = group_and_worker(workload, pod.key)
            size = {"leaderworkerset.sigs.k8s.io/size": str(workload.group_size)}
            leader = {"leaderworkerset.sigs.k8s.io/leader-name": f"{workload.name}-{group}"}
            return size | leader if worker else size
        case "VolcanoJob":
            return {"scheduling.k8s.io/group-name": pod_group(workload), "volcano.sh/task-spec": "worker"}
    return {}


def spec_of(workload: Workload, template: Json) -> Json:
    """The job's own spec around its pod template."""
    count = workload.replicas
    match workload.kind:
        case "PyTorchJob":
            roles = {"Master": 1} | ({"Worker": count - 1} if count > 1 else {})
            specs = {
                role: {"replicas": number, "restartPolicy": "OnFailure", "template": template}
                for role, number in roles.items()
            }
            return {"pytorchReplicaSpecs": specs, "runPolicy": {"cleanPodPolicy": "None", "suspend": False}}
        case "JobSet":
            job = {"parallelism": count, "completions": count, "completionMode": "Indexed", "backoffLimit": 0}
            part = {"name": ROLE, "replicas": 1, "template": {"spec": job | {"template": template}}}
            return {"replicatedJobs": [part], "failurePolicy": {"maxRestarts": 3}, "suspend": False}
        case "LeaderWorkerSet":
            return {
                "replicas": count // workload.group_size,
                "leaderWorkerTemplate": {
                    "size": workload.group_size,
                    "workerTemplate": template,
                    "restartPolicy": "RecreateGroupOnPodRestart",
                },
                "startupPolicy": "LeaderCreated",
            }
    return {
        "minAvailable": count,
        "queue": workload.queue,
        "schedulerName": "volcano",
        "plugins": {"env": [], "svc": []},
        "tasks": [{"name": "worker", "replicas": count, "template": template}],
    }
