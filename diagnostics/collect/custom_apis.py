"""Custom resources that are read where the cluster serves them, by `<plural>.<group>`, the preferred version first."""

from diagnostics.snapshot import ServedApi


def _api(group: str, kind: str, plural: str, *versions: str) -> tuple[str, tuple[ServedApi, ...]]:
    return f"{plural}.{group}", tuple(ServedApi(group, version, plural, kind) for version in versions)


JOBS: dict[str, tuple[ServedApi, ...]] = dict(
    (
        _api("batch.volcano.sh", "Job", "jobs", "v1alpha1"),
        _api("kubeflow.org", "PyTorchJob", "pytorchjobs", "v1"),
        _api("kubeflow.org", "MPIJob", "mpijobs", "v2beta1", "v1"),
        _api("trainer.kubeflow.org", "TrainJob", "trainjobs", "v1alpha1"),
        _api("jobset.x-k8s.io", "JobSet", "jobsets", "v1alpha2"),
        _api("leaderworkerset.x-k8s.io", "LeaderWorkerSet", "leaderworkersets", "v1"),
        _api("ray.io", "RayCluster", "rayclusters", "v1", "v1alpha1"),
        _api("ray.io", "RayJob", "rayjobs", "v1", "v1alpha1"),
        _api("ray.io", "RayService", "rayservices", "v1", "v1alpha1"),
    )
)
"""Owners of pods."""
QUEUES: dict[str, tuple[ServedApi, ...]] = dict(
    (
        _api("kueue.x-k8s.io", "Workload", "workloads", "v1beta2", "v1beta1"),
        _api("kueue.x-k8s.io", "ClusterQueue", "clusterqueues", "v1beta2", "v1beta1"),
        _api("kueue.x-k8s.io", "LocalQueue", "localqueues", "v1beta2", "v1beta1"),
        _api("scheduling.volcano.sh", "Queue", "queues", "v1beta1"),
        _api("scheduling.volcano.sh", "PodGroup", "podgroups", "v1beta1"),
        _api("scheduling.x-k8s.io", "PodGroup", "podgroups", "v1alpha1"),
        _api("scheduling.k8s.io", "PodGroup", "podgroups", "v1", "v1beta1", "v1alpha2"),
        # Kubernetes 1.35 alone: a Workload holds its pod groups; from v1alpha2 on they are objects of their own.
        _api("scheduling.k8s.io", "Workload", "workloads", "v1alpha1"),
    )
)
"""What holds jobs back, or starts their pods together."""
OPERATORS: dict[str, tuple[ServedApi, ...]] = dict(
    (
        _api("nvidia.com", "ClusterPolicy", "clusterpolicies", "v1"),
        _api("nvidia.com", "NVIDIADriver", "nvidiadrivers", "v1alpha1"),
    )
)
"""What the GPU Operator was asked for."""
CUSTOM = JOBS | QUEUES | OPERATORS
