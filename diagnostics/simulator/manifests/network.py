"""Namespaces and Services."""

from collections.abc import Iterable

from diagnostics.simulator.identity import number_of, uuid_of
from diagnostics.simulator.manifests import metadata as meta
from diagnostics.simulator.timestamps import DAY
from diagnostics.simulator.workloads import Json, Workload
from diagnostics.simulator.world import World

_ALWAYS = ("default", "kube-node-lease", "kube-public", "kube-system")


def namespace_uid(world: World, name: str) -> str:
    return uuid_of(world.config.seed, "Namespace", name)


def namespaces(world: World) -> list[Json]:
    names = sorted({*_ALWAYS, *(w.namespace for w in world.workloads)})
    return [_namespace(world, name) for name in names]


def _namespace(world: World, name: str) -> Json:
    created = world.before(40 * DAY)
    labels = {"kubernetes.io/metadata.name": name}
    metadata = meta.metadata(name, "", namespace_uid(world, name), created, 0, labels=labels)
    maker = "kube-apiserver" if name in _ALWAYS else "kubectl-create"
    tree = meta.field_set({"metadata": {"labels": labels}})
    metadata["managedFields"] = [meta.managed(maker, "v1", created, tree)]
    return {"metadata": metadata, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}


def services(workloads: Iterable[Workload]) -> list[Json]:
    return [_service(w) for w in workloads if w.service_port]


def _service(workload: Workload) -> Json:
    """Headless for those whose pods must find each other by name, with an address for servers."""
    seed, uid = workload.seed, uuid_of(workload.seed, "Service", workload.namespace, workload.name)
    is_headless = workload.kind in ("Job", "StatefulSet")
    address = f"10.96.{number_of(250, seed, uid)}.{1 + number_of(250, uid, seed)}"
    address = "None" if is_headless else address
    port = {"name": "rdzv" if is_headless else "http", "protocol": "TCP", "port": workload.service_port}
    spec: Json = {
        "ports": [port | {"targetPort": workload.service_port}],
        "selector": {"app": workload.name},
        "clusterIP": address,
        "clusterIPs": [address],
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
    }
    if is_headless:
        spec["publishNotReadyAddresses"] = True
    metadata = meta.metadata(workload.name, workload.namespace, uid, workload.created, 0)
    tree = meta.field_set({"spec": spec})
    metadata["managedFields"] = [meta.managed("kubectl-client-side-apply", "v1", workload.created, tree)]
    return {"metadata": metadata, "spec": spec, "status": {"loadBalancer": {}}}
