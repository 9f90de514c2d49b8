"""Which APIs this cluster serves, and the documents that say so."""

from dataclasses import dataclass

from diagnostics.simulator.workloads import Json

_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


@dataclass(frozen=True)
class Resource:
    group: str
    version: str
    name: str
    kind: str
    short: tuple[str, ...] = ()
    is_namespaced: bool = True
    is_custom: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


RESOURCES = (
    Resource("", "v1", "events", "Event", ("ev",)),
    Resource("", "v1", "limitranges", "LimitRange", ("limits",)),
    Resource("", "v1", "namespaces", "Namespace", ("ns",), is_namespaced=False),
    Resource("", "v1", "nodes", "Node", ("no",), is_namespaced=False),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", ("pvc",)),
    Resource("", "v1", "persistentvolumes", "PersistentVolume", ("pv",), is_namespaced=False),
    Resource("", "v1", "pods", "Pod", ("po",)),
    Resource("", "v1", "resourcequotas", "ResourceQuota", ("quota",)),
    Resource("", "v1", "services", "Service", ("svc",)),
    Resource("apps", "v1", "daemonsets", "DaemonSet", ("ds",)),
    Resource("apps", "v1", "deployments", "Deployment", ("deploy",)),
    Resource("apps", "v1", "replicasets", "ReplicaSet", ("rs",)),
    Resource("apps", "v1", "statefulsets", "StatefulSet", ("sts",)),
    Resource("batch", "v1", "cronjobs", "CronJob", ("cj",)),
    Resource("batch", "v1", "jobs", "Job"),
    Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
    Resource("events.k8s.io", "v1", "events", "Event", ("ev",)),
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", ("netpol",)),
    Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", is_namespaced=False),
    Resource("nvidia.com", "v1", "clusterpolicies", "ClusterPolicy", is_namespaced=False),
    Resource("nvidia.com", "v1alpha1", "nvidiadrivers", "NVIDIADriver", is_namespaced=False),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", ("pdb",)),
    Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", is_namespaced=False),
    Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim"),
    Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", is_namespaced=False),
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", ("pc",), is_namespaced=False),
    Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", ("sc",), is_namespaced=False),
    *(
        Resource(
            group, version, name, kind, is_namespaced=kind not in ("ClusterQueue", "Queue"), is_custom=True
        )
        for group, version, name, kind in (
            ("batch.volcano.sh", "v1alpha1", "jobs", "Job"),
            ("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"),
            ("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob"),
            ("kueue.x-k8s.io", "v1beta1", "clusterqueues", "ClusterQueue"),
            ("kueue.x-k8s.io", "v1beta1", "localqueues", "LocalQueue"),
            ("kueue.x-k8s.io", "v1beta1", "workloads", "Workload"),
            ("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet"),
            ("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup"),
            ("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup"),
            ("scheduling.volcano.sh", "v1beta1", "queues", "Queue"),
        )
    ),
)
VERSION = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2",
    "gitCommit": "8e16b12fda5b1dccc41a6de48b3e356cc7d5048b",
    "gitTreeState": "clean",
    "buildDate": "2026-06-18T09:41:27Z",
    "goVersion": "go1.26.6",
    "compiler": "gc",
    "platform": "linux/amd64",
}


def find(path: str) -> Resource | None:
    """By a path such as `/apis/apps/v1/deployments`."""
    return next((r for r in RESOURCES if path == f"{r.root}/{r.name}"), None)


def documents() -> dict[str, Json]:
    """By path."""
    groups = sorted({r.group for r in RESOURCES if r.group})
    found: dict[str, Json] = {
        "/version": VERSION,
        "/api": {
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "10.40.0.1:6443"}],
        },
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(g) for g in groups]},
    }
    found |= {f"/apis/{g}": {"kind": "APIGroup", "apiVersion": "v1"} | _group(g) for g in groups}
    for root, version in sorted({(r.root, r.api_version) for r in RESOURCES}):
        found[root] = {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": version,
            "resources": [d for r in RESOURCES if r.root == root for d in _descriptions(r)],
        }
        if root == "/api/v1":
            del found[root]["apiVersion"]
    return found


def _group(name: str) -> Json:
    versions = sorted({r.version for r in RESOURCES if r.group == name})
    listed = [{"groupVersion": f"{name}/{v}", "version": v} for v in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _descriptions(resource: Resource) -> list[Json]:
    one: Json = {
        "name": resource.name,
        "singularName": resource.kind.lower(),
        "namespaced": resource.is_namespaced,
        "kind": resource.kind,
        "verbs": _VERBS,
    }
    if resource.short:
        one["shortNames"] = list(resource.short)
    log = {"name": "pods/log", "singularName": "", "namespaced": True, "kind": "Pod", "verbs": ["get"]}
    return [one, log] if resource.name == "pods" else [one]
