"""Which of the resources that we read this cluster serves, and in which version."""

import re

import msgspec

from diagnostics.collect.custom_apis import CUSTOM
from diagnostics.collect.kube_client import KubeConnection
from diagnostics.collect.refusal import Refused, failed
from diagnostics.snapshot import ServedApi, SourceState
from diagnostics.text import printable

KNOWN: dict[str, tuple[ServedApi, ...]] = {
    "nodes": (ServedApi("", "v1", "nodes", "Node"),),
    "pods": (ServedApi("", "v1", "pods", "Pod"),),
    "namespaces": (ServedApi("", "v1", "namespaces", "Namespace"),),
    "services": (ServedApi("", "v1", "services", "Service"),),
    "events": (ServedApi("events.k8s.io", "v1", "events", "Event"), ServedApi("", "v1", "events", "Event")),
    "deployments": (ServedApi("apps", "v1", "deployments", "Deployment"),),
    "replicasets": (ServedApi("apps", "v1", "replicasets", "ReplicaSet"),),
    "statefulsets": (ServedApi("apps", "v1", "statefulsets", "StatefulSet"),),
    "daemonsets": (ServedApi("apps", "v1", "daemonsets", "DaemonSet"),),
    "jobs": (ServedApi("batch", "v1", "jobs", "Job"),),
    "cronjobs": (
        ServedApi("batch", "v1", "cronjobs", "CronJob"),
        ServedApi("batch", "v1beta1", "cronjobs", "CronJob"),
    ),
    "persistentvolumeclaims": (ServedApi("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),),
    "persistentvolumes": (ServedApi("", "v1", "persistentvolumes", "PersistentVolume"),),
    "storageclasses": (ServedApi("storage.k8s.io", "v1", "storageclasses", "StorageClass"),),
    "resourcequotas": (ServedApi("", "v1", "resourcequotas", "ResourceQuota"),),
    "limitranges": (ServedApi("", "v1", "limitranges", "LimitRange"),),
    "networkpolicies": (ServedApi("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),),
    "endpointslices": (ServedApi("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),),
    "runtimeclasses": (ServedApi("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass"),),
    "priorityclasses": (ServedApi("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass"),),
    "poddisruptionbudgets": (ServedApi("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),),
    **CUSTOM,
    **{
        resource: tuple(ServedApi("resource.k8s.io", v, resource, kind) for v in ("v1", "v1beta2", "v1beta1"))
        for resource, kind in (
            ("resourceslices", "ResourceSlice"),
            ("resourceclaims", "ResourceClaim"),
            ("resourceclaimtemplates", "ResourceClaimTemplate"),
            ("deviceclasses", "DeviceClass"),
        )
    },
}
"""Resource (a custom one with its group) -> the versions that we can read, the preferred one first."""

_VERSION = re.compile(r"v?[\w.+-]{1,60}")


class _GroupVersion(msgspec.Struct):
    version: str


class _Group(msgspec.Struct):
    name: str
    versions: list[_GroupVersion] = []


class _Groups(msgspec.Struct):
    groups: list[_Group]


class _ResourceEntry(msgspec.Struct):
    name: str
    verbs: list[str] | None = None


class _Resources(msgspec.Struct):
    resources: list[_ResourceEntry]


class _Version(msgspec.Struct, rename={"git_version": "gitVersion"}):
    git_version: str = ""


class Discovery(msgspec.Struct, frozen=True):
    """What is served; a resource with an empty list is served in no version that we can read."""

    server_version: str
    served: dict[str, tuple[ServedApi, ...]]
    guessed: dict[str, str]
    """Resources whose versions are the usual ones, since the server would not say, with its reason; of a custom
    resource, which need not be there at all, no version is guessed."""
    refusal: SourceState = SourceState.FAILED
    """What the refusal to say which groups there are makes of the custom resources."""


def path_of(api: ServedApi) -> str:
    """Path of the cluster-wide list."""
    return f"{_root(api.group, api.version)}/{api.resource}"


def discover(connection: KubeConnection) -> Discovery:
    """Ask what is served. What the server will not say is taken to be as usual, and noted; raises nothing."""
    groups: dict[str, set[str]] | None
    why, refusal = "", SourceState.FAILED
    try:
        groups = _groups(connection)
    except Refused as refused:
        groups, why, refusal = None, refused.detail, refused.state
    listed: dict[tuple[str, str], set[str] | Refused] = {}
    served: dict[str, tuple[ServedApi, ...]] = {}
    guessed: dict[str, str] = {}
    for resource, candidates in KNOWN.items():
        kept: list[ServedApi] = []
        for api in candidates:
            if groups is not None and api.group and api.version not in groups.get(api.group, ()):
                continue
            if groups is None and resource in CUSTOM:
                guessed[resource] = why
                continue
            found = _listed(connection, api, listed)
            if isinstance(found, Refused):
                guessed[resource] = why or found.detail
                kept += [] if resource in CUSTOM else [api]
            elif api.resource in found:
                kept.append(api)
        served[resource] = tuple(kept)
    return Discovery(_server_version(connection), served, guessed, refusal)


def _root(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def _groups(connection: KubeConnection) -> dict[str, set[str]]:
    found = _decoded(connection, "/apis", _Groups)
    return {group.name: {one.version for one in group.versions} for group in found.groups}


def _listed(
    connection: KubeConnection, api: ServedApi, known: dict[tuple[str, str], set[str] | Refused]
) -> set[str] | Refused:
    """Names of the resources of the group and version that can be listed; a refusal where that is not known."""
    key = (api.group, api.version)
    if key not in known:
        try:
            found = _decoded(connection, _root(*key), _Resources)
            known[key] = {one.name for one in found.resources if one.verbs is None or "list" in one.verbs}
        except Refused as refused:
            # A group version that is not there (404) serves nothing; any other refusal tells nothing.
            known[key] = set() if refused.status == 404 else refused
    return known[key]


def _server_version(connection: KubeConnection) -> str:
    """Empty where it may not be read or makes no sense."""
    try:
        version = _decoded(connection, "/version", _Version).git_version
    except Refused:
        return ""
    return printable(version) if _VERSION.fullmatch(version) else ""


def _decoded[T](connection: KubeConnection, path: str, shape: type[T]) -> T:
    body = connection.get(path).body
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.MsgspecError:
        raise failed(f"the answer to {path} is not what discovery answers") from None
